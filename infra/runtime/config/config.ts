import { readFileSync } from 'node:fs';
import { messageOf, parseRetrySchedule } from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import { closest, distance } from 'fastest-levenshtein';
import { NONE, type Setting } from './setting.ts';
import { type Config, SETTINGS } from './settings.ts';

/** The environment variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** All problems of the environment, reported at once. */
export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`the configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** Prefixes of our variables. An unknown name with one of them stops the start. */
const OURS = ['TRIBUTARY_', 'KAFKA_', 'REDIS_', 'ELASTICSEARCH_', 'SCHEMA_REGISTRY_'];

/** Names with such a prefix that Kubernetes, Docker or the engines' own tools set. */
const OF_OTHERS = /_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_\w+)?$|_ENV_\w+$|_(HOME|OPTS|VERSION)$/;

/** Names without such a prefix are taken for a misspelt one of ours up to this distance, e.g. `ELASTIC_SEARCH_URL`. */
const MISSPELT = { distance: 2, length: 9 } as const;

/** For commands that call a server. A server that is started in the same terminal accepts that it is there. */
const API_KEY = 'TRIBUTARY_API_KEY';

type Key = keyof typeof SETTINGS;

/**
 * Reads and checks the whole environment once. Unknown variables with one of our prefixes are refused as well. `needed`:
 * the variables that this process requires, with the reason.
 */
export function readConfig(
  environment: Environment,
  needed: Readonly<Partial<Record<Key, string>>> = {},
): Config {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  const texts = withSecretFiles(environment, problems);
  for (const [key, setting] of Object.entries(SETTINGS)) {
    try {
      values[key] = setting.parse(texts[setting.name] || setting.fallback);
    } catch (error) {
      problems.push(`${setting.name} ${messageOf(error)}`);
    }
  }
  for (const [key, why] of Object.entries(needed)) {
    const { name } = SETTINGS[key as Key];
    if (!texts[name]) problems.push(`${name} is needed: ${why}`);
  }
  problems.push(...unknownNames(environment));
  problems.push(...combinationFaults((key) => isGiven(SETTINGS[key], texts), values as Partial<Config>));
  if (problems.length > 0) throw new ConfigError(problems);
  return values as Config; // every key of SETTINGS was parsed above
}

/** Whether the variable is set to something other than its default. */
function isGiven({ name, fallback, parse }: Setting<unknown>, environment: Environment): boolean {
  const text = environment[name] || fallback;
  if (text === fallback) return false;
  try {
    return parse(text) !== parse(fallback);
  } catch {
    return true; // reported as a fault of its own
  }
}

/** The environment with the secrets from `*_FILE`. Faults are added to `problems`. */
function withSecretFiles(environment: Environment, problems: string[]): Environment {
  const texts: Record<string, string | undefined> = { ...environment };
  for (const { name, isSecret } of Object.values<Setting<unknown>>(SETTINGS))
    if (isSecret) texts[name] = secretOf(name, environment, problems);
  return texts;
}

/** The secret of a variable, or of the file that its `*_FILE` names. Faults are added to `problems`. */
function secretOf(name: string, environment: Environment, problems: string[]): string | undefined {
  const file = environment[`${name}_FILE`];
  if (!file) return environment[name];
  if (environment[name]) problems.push(`${name} and ${name}_FILE exclude each other`);
  const secret = textOfFile(file);
  if (!secret) problems.push(`${name}_FILE must name a file that can be read and is not empty, not ${file}`);
  return secret || environment[name];
}

/** The API key of a command that calls a server. */
export function readApiKey(environment: Environment): string {
  const problems: string[] = [];
  const value = secretOf(API_KEY, environment, problems) ?? '';
  if (value === '') problems.push(`${API_KEY} is needed: an API key of the workspace`);
  const [problem] = problems;
  if (problem !== undefined) throw new InvalidArgumentError(problem);
  return value;
}

/** Without the final line break, which editors and `echo` add. */
function textOfFile(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch {
    return undefined;
  }
}

function unknownNames(environment: Environment): readonly string[] {
  const known = [...Object.values<Setting<unknown>>(SETTINGS), { name: API_KEY, isSecret: true }].flatMap(
    ({ name, isSecret }) => (isSecret ? [name, `${name}_FILE`] : [name]),
  );
  return Object.keys(environment).flatMap((name) => {
    if (known.includes(name) || OF_OTHERS.test(name)) return [];
    const upper = name.toUpperCase();
    const nearest = closest(upper, known);
    const isMisspelt =
      OURS.some((start) => upper.startsWith(start)) ||
      (upper.length >= MISSPELT.length && distance(upper, nearest) <= MISSPELT.distance);
    return isMisspelt ? [`${name} is not a known variable; did you mean ${nearest}?`] : [];
  });
}

/** The reference of all variables, as a Markdown table. */
export function describeConfig(): string {
  const rows = Object.values(SETTINGS).map(
    ({ name, fallback, description }) =>
      `| \`${name}\` | ${fallback === '' ? '-' : `\`${fallback}\``} | ${description} |`,
  );
  return ['| variable | default | meaning |', '|---|---|---|', ...rows].join('\n');
}

/** Variables that need another one; with `together` the other one needs them as well. */
const NEEDS: readonly { readonly key: Key; readonly other: Key; readonly together?: true }[] = [
  { key: 'kafkaTls', other: 'kafkaBrokers' },
  { key: 'kafkaTlsCa', other: 'kafkaTls' },
  { key: 'kafkaTlsCert', other: 'kafkaTls' },
  { key: 'kafkaTlsKey', other: 'kafkaTls' },
  { key: 'kafkaTlsCert', other: 'kafkaTlsKey', together: true },
  { key: 'kafkaSaslMechanism', other: 'kafkaBrokers' },
  { key: 'kafkaSaslUsername', other: 'kafkaSaslMechanism' },
  { key: 'kafkaSaslUsername', other: 'kafkaSaslPassword', together: true },
  { key: 'kafkaOauthTokenUrl', other: 'kafkaSaslMechanism' },
  { key: 'kafkaOauthTokenUrl', other: 'kafkaOauthClientId', together: true },
  { key: 'kafkaOauthClientId', other: 'kafkaOauthClientSecret', together: true },
  { key: 'kafkaOauthScope', other: 'kafkaOauthTokenUrl' },
  { key: 'kafkaOauthExtensions', other: 'kafkaOauthTokenUrl' },
  { key: 'kafkaAwsRegion', other: 'kafkaSaslMechanism' },
  { key: 'replication', other: 'kafkaBrokers' },
  { key: 'redisTlsCa', other: 'redisUrl' },
  { key: 'redisSentinelPrimary', other: 'redisUrl' },
  { key: 'redisSentinelUsername', other: 'redisSentinelPassword' },
  { key: 'redisSentinelPassword', other: 'redisSentinelPrimary' },
  { key: 'elasticsearchApiKey', other: 'elasticsearchUrl' },
  { key: 'elasticsearchServiceToken', other: 'elasticsearchUrl' },
  { key: 'elasticsearchUsername', other: 'elasticsearchUrl' },
  { key: 'elasticsearchUsername', other: 'elasticsearchPassword', together: true },
  { key: 'elasticsearchTlsCa', other: 'elasticsearchUrl' },
  { key: 'schemaRegistryUrl', other: 'kafkaBrokers' },
  { key: 'schemaRegistryUsername', other: 'schemaRegistryUrl' },
  { key: 'schemaRegistryUsername', other: 'schemaRegistryPassword', together: true },
  { key: 'smtpUrl', other: 'mailFrom', together: true },
  { key: 'smtpUsername', other: 'smtpUrl' },
  { key: 'smtpUsername', other: 'smtpPassword', together: true },
  { key: 'smtpTlsCa', other: 'smtpUrl' },
];

function nameOf(key: Key): string {
  return SETTINGS[key].name;
}

/** Faults of combinations of variables. `given`: see `isGiven`; `parsed`: the values that are valid by themselves. */
function combinationFaults(given: (key: Key) => boolean, parsed: Partial<Config>): readonly string[] {
  const faults = NEEDS.flatMap(({ key, other, together }) => {
    if (given(key) && !given(other)) return [`${nameOf(key)} needs ${nameOf(other)}`];
    return together && given(other) && !given(key) ? [`${nameOf(other)} needs ${nameOf(key)}`] : [];
  });
  const signIns = (
    ['elasticsearchApiKey', 'elasticsearchServiceToken', 'elasticsearchUsername'] as const
  ).filter(given);
  if (signIns.length > 1) faults.push(`${signIns.map(nameOf).join(' and ')} exclude each other`);
  faults.push(...signInFaults(given, parsed));
  const { dedicatedTopics = [], topicTenants = new Map() } = parsed;
  for (const topic of topicTenants.keys())
    if (!dedicatedTopics.includes(topic))
      faults.push(`${nameOf('topicTenants')} names "${topic}", which is not in ${nameOf('dedicatedTopics')}`);
  return [...faults, ...retentionFaults(parsed)];
}

/** The variables that a mechanism of Kafka needs. */
const MECHANISM_NEEDS: Readonly<Record<NonNullable<Config['kafkaSaslMechanism']>, Key>> = {
  plain: 'kafkaSaslUsername',
  'scram-sha-256': 'kafkaSaslUsername',
  'scram-sha-512': 'kafkaSaslUsername',
  oauthbearer: 'kafkaOauthTokenUrl',
  'aws-msk-iam': 'kafkaAwsRegion',
};

function signInFaults(
  given: (key: Key) => boolean,
  { kafkaSaslMechanism: mechanism }: Partial<Config>,
): readonly string[] {
  if (mechanism === undefined) return [];
  const needed = MECHANISM_NEEDS[mechanism];
  const name = nameOf('kafkaSaslMechanism');
  return [
    ...(given(needed) ? [] : [`${name}=${mechanism} needs ${nameOf(needed)}`]),
    ...[...new Set(Object.values(MECHANISM_NEEDS))]
      .filter((other) => other !== needed && given(other))
      .map((other) => `${nameOf(other)} is not for ${name}=${mechanism}`),
  ];
}

function retentionFaults({
  retentionMs,
  historyRetentionMs,
  retryExpiryMs,
  retrySchedule,
  dedupeWindowMs,
}: Partial<Config>): readonly string[] {
  const faults: string[] = [];
  if (retentionMs === undefined) return faults;
  if (retryExpiryMs !== undefined && retrySchedule !== undefined) {
    const longest = Math.max(...parseRetrySchedule(retrySchedule).map(({ ms }) => ms));
    if (retentionMs < retryExpiryMs + longest) {
      faults.push(
        'TRIBUTARY_RETENTION must be longer than TRIBUTARY_RETRY_EXPIRY and the longest step of TRIBUTARY_RETRY_SCHEDULE together',
      );
    }
  }
  if (historyRetentionMs !== undefined && historyRetentionMs < retentionMs)
    faults.push('TRIBUTARY_HISTORY_RETENTION must not be shorter than TRIBUTARY_RETENTION');
  if (dedupeWindowMs !== undefined && retentionMs < dedupeWindowMs)
    faults.push('TRIBUTARY_RETENTION must not be shorter than TRIBUTARY_DEDUPE_WINDOW');
  return faults;
}

/** The defaults of `tributary dev`, for a developer's own machine. */
const DEV_DEFAULTS = {
  TRIBUTARY_DEV_ISSUER: '1',
  TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8',
  LOG_LEVEL: 'warn',
  TRIBUTARY_DRAIN: '0s',
  TRIBUTARY_OPERATORS: 'dev@tributary.localhost',
} as const;

/** An empty variable counts as absent. */
function withDefaults(defaults: Readonly<Record<string, string>>, environment: Environment): Environment {
  const given = Object.entries(environment).filter(([, value]) => value !== undefined && value !== '');
  return { ...defaults, ...Object.fromEntries(given) };
}

export function readDevConfig(environment: Environment): Config {
  return readConfig({ ...DEV_DEFAULTS, ...environment });
}

/** The configuration of `tributary serve`: people sign in with the configured issuers, and never with the development one. */
export function readServeConfig(environment: Environment): Config {
  const config = readConfig(environment, {
    issuers:
      'the OpenID Connect issuers that people sign in with, or the word none where API keys alone are to be used; for trying out there is tributary dev',
    secretKeys:
      'the keys that seal the secrets of destinations, e.g. made by: echo "k1:$(openssl rand -base64 32)"',
  });
  if (config.devIssuer)
    throw new ConfigError([
      'TRIBUTARY_DEV_ISSUER is for tributary dev: anyone with its key can sign in as any person',
    ]);
  if (config.issuers.length === 0 && environment.TRIBUTARY_ISSUERS !== NONE)
    throw new ConfigError([`TRIBUTARY_ISSUERS names no issuer: name one, or say ${NONE} for API keys alone`]);
  return config;
}

/** The defaults of a role that is reached from other machines. */
const CLUSTER_DEFAULTS = { HOST: '0.0.0.0' } as const;

const NEEDS_KAFKA = {
  kafkaBrokers:
    'the processes of an installation meet on Kafka (without it, tributary serve or dev runs everything in one)',
} as const;

/** The configuration of a command that works on Kafka alone. */
export function readKafkaCommandConfig(environment: Environment): Config {
  return readConfig(environment, NEEDS_KAFKA);
}

/**
 * The configuration of a role that runs in several processes, which needs every engine: a process on stores of its own has
 * its own deduplication, counts and profiles.
 */
export function readClusterConfig(environment: Environment): Config {
  return readConfig(withDefaults(CLUSTER_DEFAULTS, environment), {
    ...NEEDS_KAFKA,
    redisUrl: `message ids and counts of all processes are there (or the word ${NONE}, where all of them share this data folder)`,
    elasticsearchUrl: `profiles and history of all processes are there (or the word ${NONE}, where all of them share this data folder)`,
  });
}

/**
 * The configuration of a command that runs beside the processes of an installation. Beside `tributary dev` it is that of
 * `tributary dev`, which alone runs without Kafka and without configured keys.
 */
export function readCommandConfig(environment: Environment): Config {
  const config = readConfig({ LOG_LEVEL: 'warn', ...environment });
  const isOfDev = config.kafkaBrokers.length === 0 && config.secretKeys === '';
  return isOfDev ? readDevConfig(environment) : config;
}
