import { createPrivateKey, type JsonWebKey } from 'node:crypto';
import { resolve } from 'node:path';
import type { OAuthClients } from '@tributary/connectors';
import { parseRanges } from '@tributary/connectors/address-ranges';
import {
  declareTopics,
  isUuid,
  MAX_CALLS_PER_SECOND,
  MAX_CONCURRENCY,
  MAX_PARTITIONS,
  normalizeEmail,
  parseRetrySchedule,
  QUOTA_NAMES,
  QUOTAS,
  type QuotaName,
  type Quotas,
  retryTopic,
} from '@tributary/core';
import { ENGINE_SETTINGS, ISSUER_SETTINGS, MAIL_SETTINGS, TRACING_SETTINGS } from './engine-settings.ts';
import {
  budget,
  duration,
  flag,
  list,
  memory,
  number,
  oneOf,
  orFault,
  rate,
  type Setting,
  secret,
  setting,
  space,
  text,
  unset,
} from './setting.ts';

const HOUR = 3_600_000;
const DAY = 86_400_000;
/** Limits of clients, and the web origins that may call the API. */
export const LIMIT_SETTINGS = {
  eventRate: unset(
    'TRIBUTARY_EVENT_RATE',
    rate(10_000_000),
    'Events a second that one write key may send to one gateway; more is answered 429. Default: any number.',
  ),
  callRate: unset(
    'TRIBUTARY_CALL_RATE',
    rate(10_000_000),
    'Calls a second of one credential, of everything but events, at once as many as a minute allows. Default: 100, and any number for client keys.',
  ),
  largeProfileRate: setting(
    'TRIBUTARY_LARGE_PROFILE_RATE',
    '1048576',
    number(65_536, 1_000_000_000),
    'Characters of large profiles a second that one organization may rewrite at one gateway, four times as many at once.',
  ),
  corsOrigins: setting(
    'TRIBUTARY_CORS_ORIGINS',
    '',
    origins,
    'Web origins whose pages may call the platform API, comma-separated, * for any. Default: none.',
  ),
  corsEventOrigins: setting(
    'TRIBUTARY_CORS_EVENT_ORIGINS',
    '*',
    origins,
    'Web origins whose pages may send events, comma-separated, * for any; none with the word none.',
  ),
  publicUrl: unset(
    'TRIBUTARY_PUBLIC_URL',
    publicUrl,
    'Where browsers reach this server, such as https://events.example.com, for analytics.js, links in mails and the way back from services. Default: the scheme and host of the request.',
  ),
  hstsMs: unset(
    'TRIBUTARY_HSTS',
    duration(1_000, 3650 * DAY),
    'Value of max-age in Strict-Transport-Security: how long browsers use HTTPS alone. Default: the header is not sent.',
  ),
  requestTimeoutMs: setting(
    'TRIBUTARY_REQUEST_TIMEOUT',
    '30s',
    duration(100, 3_600_000),
    'How long a client may take to send a request.',
  ),
  headersTimeoutMs: setting(
    'TRIBUTARY_HEADERS_TIMEOUT',
    '10s',
    duration(100, 3_600_000),
    'How long a client may take to send the headers of a request.',
  ),
  keepAliveTimeoutMs: setting(
    'TRIBUTARY_KEEP_ALIVE_TIMEOUT',
    '72s',
    duration(100, 3_600_000),
    'How long a connection may be idle; longer than the load balancer in front keeps one.',
  ),
  maxConnections: setting(
    'TRIBUTARY_MAX_CONNECTIONS',
    '10000',
    number(1, 1_000_000),
    'Connections of one process at once; when used up, an address with fewer gets one of the address with most.',
  ),
} as const;
type QuotaKey<Name extends QuotaName = QuotaName> = `quota:${Name}`;
const keyOf = <Name extends QuotaName>(name: Name): QuotaKey<Name> => `quota:${name}`;
/** One setting for each quota. Beyond it requests are answered 409; existing entities stay. */
const QUOTA_BY_NAME = Object.fromEntries(
  QUOTA_NAMES.map((name) => [
    keyOf(name),
    setting(
      `TRIBUTARY_QUOTA_${name.toUpperCase()}`,
      String(QUOTAS[name].fallback),
      number(0, 100_000_000_000),
      `${QUOTAS[name].counts}.`,
    ),
  ]),
) as { readonly [Key in QuotaKey]: Setting<number> };
/** Quotas and rates of changes of the catalog. */
export const QUOTA_SETTINGS = {
  changeRate: setting(
    'TRIBUTARY_CHANGE_RATE',
    '10',
    rate(10_000_000),
    'Changes a second of one workspace, or of an organization beside its workspaces, at one gateway; more is 429.',
  ),
  accountChangeRate: setting(
    'TRIBUTARY_CHANGE_RATE_PER_ACCOUNT',
    '20',
    rate(10_000_000),
    'The same of one account and the keys it made, in all workspaces.',
  ),
  ...QUOTA_BY_NAME,
} as const;
/** Resources of transformations. */
export const SANDBOX_SETTINGS = {
  sandboxProcesses: setting(
    'TRIBUTARY_SANDBOX_PROCESSES',
    '2',
    number(1, 64),
    'Processes that run transformations, and as many for slow ones.',
  ),
  sandboxTimeMs: setting(
    'TRIBUTARY_SANDBOX_TIME',
    '100ms',
    duration(10, 1_000),
    'How long a transformation may take for one event, and its source to load. The same on every process.',
  ),
  sandboxMemoryMib: setting(
    'TRIBUTARY_SANDBOX_MEMORY',
    '64MiB',
    memory(16, 512),
    'Memory that a transformation may take, up to 512MiB.',
  ),
  sandboxUid: setting(
    'TRIBUTARY_SANDBOX_UID',
    '65534',
    number(0, 4_294_967_294),
    'User and group of those processes, and of those of the Segment pack, where Tributary runs as root; 0: root too.',
  ),
} as const;

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/** All variables that Tributary reads, printed by `tributary config`. */
export const SETTINGS = {
  port: setting(
    'PORT',
    '8080',
    number(0, 65_535),
    'Port of the HTTP server of every role; 0 takes a free one.',
  ),
  host: setting(
    'HOST',
    '127.0.0.1',
    text,
    'Address the HTTP server listens on; of tributary gateway and processor 0.0.0.0.',
  ),
  adminPort: unset(
    'TRIBUTARY_ADMIN_PORT',
    number(0, 65_535),
    'Port of metrics and detailed readiness; 0 takes a free one. Default: PORT + 1000.',
  ),
  adminHost: setting(
    'TRIBUTARY_ADMIN_HOST',
    '127.0.0.1',
    text,
    'Address the admin port listens on, without credentials: beyond loopback, guard it by a firewall.',
  ),
  dataFolder: setting(
    'TRIBUTARY_DATA_DIR',
    './data',
    (value) => resolve(value),
    'Folder of everything kept on this machine.',
  ),
  diskReserveBytes: unset(
    'TRIBUTARY_DISK_RESERVE',
    space(2 ** 50),
    'Free space of the disk of the data folder, e.g. 2GiB, below which first organizations above a fair share stop, below 20 % of it everyone, below 10 % the stages. Default: 25 % of the disk, 5GiB at most; 0MiB: none.',
  ),
  bytesPerHour: unset(
    'TRIBUTARY_WORKSPACE_BYTES_PER_HOUR',
    budget(2 ** 60),
    'Bytes that stages may write to the log for one workspace in a clock hour, and profile writes for one organization. Beyond it events are 429, and accepted ones become one dead delivery each. Default: 64GiB, with KAFKA_BROKERS 256GiB.',
  ),
  bytesHeld: unset(
    'TRIBUTARY_WORKSPACE_BYTES_HELD',
    budget(2 ** 60),
    'The same for the bytes that the log keeps of one workspace over TRIBUTARY_RETENTION (33 days at most). Default: any number.',
  ),
  logLevel: setting('LOG_LEVEL', 'info', oneOf(LOG_LEVELS), 'Least level that is logged.'),
  trustProxy: setting(
    'TRUST_PROXY',
    '',
    proxies,
    'Proxies whose X-Forwarded-For is believed: addresses or CIDR ranges, comma-separated, or their number in a row. Default: none, so all clients of a proxy count as one address.',
  ),
  devIssuer: setting(
    'TRIBUTARY_DEV_ISSUER',
    'false',
    flag,
    'With true, ID tokens of the development issuer are taken.',
  ),
  devIssuerKey: secret(
    'TRIBUTARY_DEV_ISSUER_KEY',
    privateJwk,
    'Private JWK (JSON, ES256) of the development issuer; default: made once in the data folder.',
  ),
  ...ISSUER_SETTINGS,
  console: setting(
    'TRIBUTARY_CONSOLE',
    'true',
    flag,
    'Whether the gateway serves the console at /console/ (and / redirects to it).',
  ),
  operators: setting(
    'TRIBUTARY_OPERATORS',
    '',
    operators,
    'Verified e-mail addresses, comma-separated, of the people who may read GET /api/v1/system: stages, processes and engines of all tenants. Default: nobody; of tributary dev: dev@tributary.localhost.',
  ),
  secretKeys: secret(
    'TRIBUTARY_SECRET_KEYS',
    text,
    'Keys that seal destination secrets: <kid>:<base64 of 32 bytes>,...; the first seals. Default with the development issuer: made once in the data folder.',
  ),
  partitions: setting(
    'TRIBUTARY_PARTITIONS',
    '4',
    number(1, MAX_PARTITIONS),
    'Partitions of each topic when it is made. Leave it as it is: `tributary topics --partitions` grows topics on Kafka.',
  ),
  retentionMs: setting(
    'TRIBUTARY_RETENTION',
    '7d',
    duration(HOUR, 3650 * 24 * HOUR),
    'How long topics keep their records.',
  ),
  historyRetentionMs: unset(
    'TRIBUTARY_HISTORY_RETENTION',
    duration(HOUR, 3650 * 24 * HOUR),
    'How long violations, past versions of contracts, dead and retried deliveries and the audit log are kept; default, and at least: TRIBUTARY_RETENTION.',
  ),
  dedicatedTopics: setting(
    'TRIBUTARY_TOPICS',
    '',
    topics,
    'Further topics for received events that write keys may name, comma-separated.',
  ),
  topicTenants: setting(
    'TRIBUTARY_TOPIC_TENANTS',
    '',
    topicTenants,
    'The tenants of topics in TRIBUTARY_TOPICS: `<topic>=<id>+<id>`, comma-separated, with ids of organizations or workspaces; a missing one is for every workspace.',
  ),
  dedupeWindowMs: setting(
    'TRIBUTARY_DEDUPE_WINDOW',
    '24h',
    duration(60_000, 30 * 24 * HOUR),
    'How long a message_id is remembered.',
  ),
  retrySchedule: setting(
    'TRIBUTARY_RETRY_SCHEDULE',
    '10s,1m,10m,1h,6h',
    retrySchedule,
    'Delays between attempts of a delivery, one topic each; the last repeats until TRIBUTARY_RETRY_EXPIRY.',
  ),
  retryExpiryMs: setting(
    'TRIBUTARY_RETRY_EXPIRY',
    '24h',
    duration(1, 30 * 24 * HOUR),
    'Age at which a delivery that keeps failing is dead.',
  ),
  deliveryTimeoutMs: setting(
    'TRIBUTARY_DELIVERY_TIMEOUT',
    '10s',
    duration(10, 300_000),
    'How long one call of a destination may take.',
  ),
  destinationConcurrency: setting(
    'TRIBUTARY_DESTINATION_CONCURRENCY',
    '16',
    number(1, MAX_CONCURRENCY),
    'Calls of one process to one destination at a time, without a max_concurrency.',
  ),
  destinationRate: unset(
    'TRIBUTARY_DESTINATION_RATE',
    number(1, MAX_CALLS_PER_SECOND),
    'Calls of one process to one destination a second, without a rate_limit_per_second. Default: any number.',
  ),
  alertAfterMs: setting(
    'TRIBUTARY_ALERT_AFTER',
    '2m',
    duration(100, 24 * HOUR),
    'How long a destination must be unhealthy before a notice; recovery is reported after a quarter of it.',
  ),
  alertEveryMs: setting(
    'TRIBUTARY_ALERT_EVERY',
    '1h',
    duration(100, 7 * 24 * HOUR),
    'A destination or alert that keeps changing is reported twice, then once in this time.',
  ),
  alertRoundMs: setting(
    'TRIBUTARY_ALERT_ROUND',
    '1m',
    duration(100, HOUR),
    'How often alerts of workspaces are evaluated.',
  ),
  egressAllow: setting(
    'TRIBUTARY_EGRESS_ALLOW',
    '',
    ranges,
    'CIDR ranges of private addresses that destinations may be at, comma-separated.',
  ),
  partnerSecrets: secret(
    'TRIBUTARY_SEGMENT_SECRETS',
    namedTexts,
    'Secrets that vendors give partners: a JSON object by the names of the [reference](segment-destinations.md#secrets-of-partners).',
  ),
  oauthClients: secret(
    'TRIBUTARY_OAUTH_CLIENTS',
    oauthClients,
    'OAuth 2 clients at services that destinations are connected with: a JSON object by the names of the [reference](segment-destinations.md#services-that-a-person-signs-in-to), of `{ "id", "secret" }`.',
  ),
  ...SANDBOX_SETTINGS,
  liveStreams: setting(
    'TRIBUTARY_LIVE_STREAMS',
    '1000',
    number(1, 100_000),
    'Live streams open at one gateway; more are 429.',
  ),
  liveWorkspaceStreams: setting(
    'TRIBUTARY_LIVE_STREAMS_PER_WORKSPACE',
    '100',
    number(1, 100_000),
    'Of them those of one workspace.',
  ),
  liveOrganizationStreams: setting(
    'TRIBUTARY_LIVE_STREAMS_PER_ORGANIZATION',
    '100',
    number(1, 100_000),
    'Those of all workspaces of one organization.',
  ),
  liveAccountStreams: setting(
    'TRIBUTARY_LIVE_STREAMS_PER_ACCOUNT',
    '50',
    number(1, 100_000),
    'Those of one account and the API keys it made.',
  ),
  catalogStalenessMs: setting(
    'TRIBUTARY_CATALOG_STALENESS',
    '60s',
    duration(3_000, 24 * HOUR),
    'How long a gateway trusts its copy of the catalog after the log stopped answering; then it answers 503 and ends live streams.',
  ),
  startTimeoutMs: setting(
    'TRIBUTARY_START_TIMEOUT',
    '60s',
    duration(1_000, 24 * HOUR),
    'How long a starting process waits for engines and catalog.',
  ),
  stagesHeapMib: unset(
    'TRIBUTARY_STAGES_HEAP',
    memory(64, 1_000_000),
    'Heap of the thread that runs the stages, e.g. 512MiB: it must fit into the memory twice. Default: that of Node.',
  ),
  drainMs: setting(
    'TRIBUTARY_DRAIN',
    '5s',
    duration(0, 600_000),
    'How long a gateway serves after SIGTERM or SIGHUP while its /readyz answers 503: longer than load balancers take to notice. Of tributary dev 0s.',
  ),
  shutdownGraceMs: setting(
    'TRIBUTARY_SHUTDOWN_GRACE',
    '20s',
    duration(100, 600_000),
    'How long a process may take after SIGTERM and TRIBUTARY_DRAIN to finish its work.',
  ),
  ...ENGINE_SETTINGS,
  ...MAIL_SETTINGS,
  ...LIMIT_SETTINGS,
  ...QUOTA_SETTINGS,
  ...TRACING_SETTINGS,
} as const;

type ValueOf<S> = S extends Setting<infer T> ? T : never;
export type Config = { readonly [K in keyof typeof SETTINGS]: ValueOf<(typeof SETTINGS)[K]> };

/** Tributary's own topics: events sent there would be taken for other records. */
const OWN_TOPICS = declareTopics({ partitions: 1, retentionMs: 1, retrySteps: [], dedicated: [] });

/** E-mail addresses in their normalised form. */
function operators(value: string): readonly string[] {
  return list(value).map((address) => {
    const normalized = normalizeEmail(address);
    if (normalized === undefined) throw new Error(`"${address}" is not an e-mail address`);
    return normalized;
  });
}

function topics(value: string): readonly string[] {
  const names = list(value);
  for (const [i, name] of names.entries()) {
    if (!/^[a-z0-9][a-z0-9._-]{0,99}$/.test(name))
      throw new Error(`"${name}" is no topic name: lower-case letters, digits, . _ -`);
    if (OWN_TOPICS.has(name) || name.startsWith(retryTopic('')))
      throw new Error(`"${name}" is a topic of Tributary's own`);
    if (names.indexOf(name) !== i) throw new Error(`"${name}" is named twice`);
  }
  return names;
}

function topicTenants(value: string): ReadonlyMap<string, ReadonlySet<string>> {
  const tenants = new Map<string, ReadonlySet<string>>();
  for (const entry of list(value)) {
    const [topic = '', ids = '', ...rest] = entry.split('=');
    const named = ids.split('+').map((id) => id.trim().toLowerCase());
    if (rest.length > 0 || !named.every(isUuid))
      throw new Error(`"${entry}" is not of the form <topic>=<id>+<id>`);
    tenants.set(topic.trim(), new Set(named));
  }
  return tenants;
}

function retrySchedule(value: string): readonly string[] {
  const labels = list(value);
  parseRetrySchedule(labels);
  return labels;
}

/** A JSON object of texts; `{}` where the variable is absent. */
function namedTexts(value: string): Readonly<Record<string, string>> {
  if (value === '') return {};
  const read: unknown = orFault('must be a JSON object', () => JSON.parse(value));
  const entries =
    typeof read === 'object' && read !== null && !Array.isArray(read) ? Object.entries(read) : [];
  const texts = entries.flatMap(([name, text]) =>
    typeof text === 'string' && text !== '' ? [[name, text]] : [],
  );
  if (texts.length === 0 || texts.length < entries.length)
    throw new Error('must be a JSON object whose members are texts');
  return Object.fromEntries(texts);
}

function oauthClients(value: string): OAuthClients {
  if (value === '') return {};
  const read: unknown = orFault('must be a JSON object', () => JSON.parse(value));
  return Object.fromEntries(
    Object.entries(Object(read)).map(([name, client]) => {
      const { id, secret } = Object(client);
      if (typeof id !== 'string' || typeof secret !== 'string' || id === '' || secret === '')
        throw new Error('must be a JSON object whose members are { "id": text, "secret": text }');
      return [name, { id, secret }];
    }),
  );
}

function ranges(value: string): readonly string[] {
  const cidrs = list(value);
  parseRanges(cidrs);
  return cidrs;
}

/** CIDR ranges, or a number of hops. */
function proxies(value: string): readonly string[] | number {
  return /^\d+$/.test(value) ? number(1, 32)(value) : ranges(value);
}

/** A private JWK, or the empty text. */
function privateJwk(value: string): string {
  if (value !== '')
    orFault('is no private JWK', () =>
      createPrivateKey({ key: JSON.parse(value) as JsonWebKey, format: 'jwk' }),
    );
  return value;
}

/** Origins (scheme, host and port) as browsers send them. */
function origins(value: string): readonly string[] {
  if (value === 'none') return [];
  const names = list(value);
  const wrong = names.find((name) => name !== '*' && !isOrigin(name));
  if (wrong !== undefined) throw new Error(`"${wrong}" is no origin, e.g. https://app.example.com`);
  return names;
}

function publicUrl(value: string): string {
  const origin = value.replace(/\/$/, '');
  if (isOrigin(origin)) return origin;
  throw new Error('must be a scheme and a host, such as https://events.example.com');
}

function isOrigin(text: string): boolean {
  return /^https?:\/\/[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

export function quotasOf(config: { readonly [Key in QuotaKey]: number }): Quotas {
  return Object.fromEntries(QUOTA_NAMES.map((name) => [name, config[keyOf(name)]])) as Quotas;
}
