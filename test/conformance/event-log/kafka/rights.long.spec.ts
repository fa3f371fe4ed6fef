import { type Logger, partitionOf } from '@tributary/core';
import kafkajs from 'kafkajs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunningKafka } from '../../../engines/index.ts';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { withAdmin } from '../../../helpers/kafka.ts';
import { ownEngines } from '../../../helpers/own-engines.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, numbered, numbers, valuesOf } from '../suite/log-contents.ts';
import { caughtUp, copyStage, runThrough } from '../suite/stages.ts';
import { openQuickly, topicsOf } from './installation/installation.ts';

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs;
const { KafkaJSAggregateError, KafkaJSProtocolError } = kafkajs;

/** The grants that docs/operations/rights.md asks operators for, on all resources with the prefix. */
const GRANTS = [
  ...(['CREATE', 'READ', 'WRITE', 'DELETE', 'DESCRIBE_CONFIGS', 'ALTER_CONFIGS'] as const).map(
    (right) => ['TOPIC', right] as const,
  ),
  ['GROUP', 'READ'],
  ['TRANSACTIONAL_ID', 'WRITE'],
] as const;
type Grant = (typeof GRANTS)[number];

function securityOf({ security }: RunningKafka) {
  if (!security) throw new Error('it has no secured listeners');
  return security;
}

function isUnauthorized(thrown: unknown): boolean {
  if (thrown instanceof KafkaJSAggregateError) return thrown.errors.every(isUnauthorized);
  return thrown instanceof KafkaJSProtocolError && thrown.type === 'TOPIC_AUTHORIZATION_FAILED';
}

/** Repeats the request until Kafka no longer refuses it for a missing right on a topic. */
async function untilAuthorized(request: () => Promise<unknown>): Promise<void> {
  await eventually(async () => {
    try {
      await request();
      return true;
    } catch (thrown) {
      if (isUnauthorized(thrown)) return false;
      throw thrown;
    }
  }, 'the rights do not apply');
}

describe.skipIf(engines() === undefined)('a Kafka that grants rights one by one', () => {
  let kafka: RunningKafka;
  beforeAll(async () => {
    const settings = {
      'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
      // Connections without a user: the broker itself, and the test.
      'super.users': 'User:ANONYMOUS',
    };
    kafka = await ownEngines().kafka.start({ secured: true, settings });
  });
  afterAll(() => kafka?.stop());

  /**
   * Grants the rights to the user of the secured listener and waits until they apply: Kafka may acknowledge them before
   * the controller and the broker enforce them. The rights of one request apply at once, so one more, on a topic of its
   * own, shows both: the controller decides about its creation, the broker about its metadata.
   */
  async function grant(grants: readonly Grant[], prefix: string): Promise<void> {
    const { sasl, user } = securityOf(kafka);
    const topic = `granted-${prefix}`;
    const toUser = {
      principal: `User:${user.username}`,
      host: '*',
      permissionType: AclPermissionTypes.ALLOW,
    };
    const acl = grants.map(([resource, right]) => ({
      ...toUser,
      resourceType: AclResourceTypes[resource],
      resourceName: prefix,
      resourcePatternType: ResourcePatternTypes.PREFIXED,
      operation: AclOperationTypes[right],
    }));
    const shown = {
      ...toUser,
      resourceType: AclResourceTypes.TOPIC,
      resourceName: topic,
      resourcePatternType: ResourcePatternTypes.LITERAL,
      operation: AclOperationTypes.ALL,
    };
    await withAdmin(kafka.url, (admin) => admin.createAcls({ acl: [...acl, shown] }));
    await withAdmin(
      sasl,
      async (admin) => {
        await untilAuthorized(() => admin.createTopics({ topics: [{ topic }], waitForLeaders: false }));
        await untilAuthorized(() => admin.fetchTopicMetadata({ topics: [topic] }));
      },
      { sasl: { mechanism: 'plain', ...user } },
    );
  }

  async function installedWith(grants: readonly Grant[]) {
    const security = securityOf(kafka);
    const prefix = freshPrefix();
    await grant(grants, prefix);
    const said: string[] = [];
    const say = (fields: object, message: string) => void said.push(`${message} ${JSON.stringify(fields)}`);
    const logger: Logger = { debug() {}, info: say, warn: say, error: say };
    const log = await openQuickly({
      at: { brokers: [security.sasl], sasl: { mechanism: 'plain', ...security.user } },
      prefix,
      topics: topicsOf(2),
      logger,
    });
    return { log, said };
  }

  it('allows everything with the documented ones', async () => {
    const { log } = await installedWith(GRANTS);
    await log.createTopics();
    await log.append(SOURCE, numbered('k', 20));
    await runThrough(log, copyStage());
    expect(await valuesOf(log, TARGET)).toEqual(numbers(20));
    const partition = partitionOf('k', 2);
    expect(await log.positionOf('stage', SOURCE, partition)).toBeGreaterThan(0);
    expect(await log.offsetAt(SOURCE, partition, 0)).toBe(0);
    const [progress] = await log.progress([{ stage: 'stage', topics: [SOURCE] }]);
    expect(progress).toMatchObject({ stage: 'stage', members: 0 });
    await log.dropBelow(SOURCE, partition, 1);
    await eventually(async () => (await log.first(SOURCE, partition)) === 1, 'nothing is dropped');
    // The broker settings require a right on the cluster, which need not be granted.
    expect((await log.topicFaults()).map(({ message }) => message)).toEqual([
      expect.stringMatching(/^offsets.retention.minutes .* not known, .*CLUSTER_AUTHORIZATION_FAILED/),
    ]);
    expect(await log.alterTopics()).toEqual([]);
    await log.close();
  });

  it('states that settings are unknown where it may not ask for them', async () => {
    const { log } = await installedWith(GRANTS.filter(([, right]) => !right.endsWith('CONFIGS')));
    await log.createTopics();
    expect((await log.topicFaults()).map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/^the settings of topics are not known, .*TOPIC_AUTHORIZATION_FAILED/),
    );
    await log.close();
  });

  const withheld = GRANTS.filter(([, right]) => !right.endsWith('CONFIGS'));
  it.each(withheld)('misses each of them, and states so: %s %s', async (resource, right) => {
    const { log, said } = await installedWith(
      GRANTS.filter((grant) => grant[0] !== resource || grant[1] !== right),
    );
    const all = async () => {
      await log.createTopics();
      await log.append(SOURCE, numbered('k', 1));
      const run = await log.run(copyStage());
      await caughtUp(run, 5_000);
      await run.stop();
      await log.dropBelow(SOURCE, partitionOf('k', 2), 1);
    };
    const failure = await all().then(() => 'nothing', String);
    expect([failure, ...said].join('\n')).toContain(`${resource}_AUTHORIZATION_FAILED`);
    expect(failure).not.toBe('nothing');
    await log.close();
  });
});
