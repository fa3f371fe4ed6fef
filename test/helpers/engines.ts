import { randomBytes } from 'node:crypto';

/** Addresses of the engines of this test run. */
export interface Engines {
  /** `host:port`, comma-separated. */
  readonly kafkaBrokers: string;
  /** For a user with the documented rights. */
  readonly redisUrl: string;
  /** With Confluent's API. */
  readonly schemaRegistryUrl: string;
  readonly elasticsearchUrl: string;
}

/** The variables in which the run's setup passes the addresses to the test files. */
export const ENGINE_VARIABLES = {
  kafkaBrokers: 'TRIBUTARY_TEST_KAFKA_BROKERS',
  redisUrl: 'TRIBUTARY_TEST_REDIS_URL',
  schemaRegistryUrl: 'TRIBUTARY_TEST_SCHEMA_REGISTRY_URL',
  elasticsearchUrl: 'TRIBUTARY_TEST_ELASTICSEARCH_URL',
} as const satisfies Record<keyof Engines, string>;

/**
 * The engines that all test files of a run share, or undefined where they could not be started; never
 * undefined in CI. A test names its topics, groups and keys with a `freshPrefix` and removes them afterwards.
 * Tests that stop or pause an engine start one of `ownEngines`.
 */
export function engines(): Engines | undefined {
  const kafkaBrokers = process.env[ENGINE_VARIABLES.kafkaBrokers];
  const redisUrl = process.env[ENGINE_VARIABLES.redisUrl];
  const schemaRegistryUrl = process.env[ENGINE_VARIABLES.schemaRegistryUrl];
  const elasticsearchUrl = process.env[ENGINE_VARIABLES.elasticsearchUrl];
  if (!kafkaBrokers || !redisUrl || !schemaRegistryUrl || !elasticsearchUrl) return undefined;
  return { kafkaBrokers, redisUrl, schemaRegistryUrl, elasticsearchUrl };
}

/** A prefix that no other test uses, e.g. `t1f9a03bc.`. */
export function freshPrefix(): string {
  return `t${randomBytes(4).toString('hex')}.`;
}
