import { createPrivateKey } from 'node:crypto';
import {
  DEFAULT_PROFILE_BOUNDS,
  MAX_PROFILE_BOUNDS,
  NULL_HANDLINGS,
  normalizeEmail,
  SIGNATURE_ALGORITHMS,
} from '@tributary/core';
import {
  certificateFile,
  duration,
  flag,
  isSafeUrl,
  list,
  NONE,
  number,
  oneOf,
  optional,
  orFault,
  orNone,
  pemFile,
  secret,
  setting,
  text,
  unset,
} from './setting.ts';

/** The variables of the distributed adapters. Without them the ports are on SQLite. */
export const ENGINE_SETTINGS = {
  kafkaBrokers: setting(
    'KAFKA_BROKERS',
    '',
    brokers,
    'Kafka for the event log, as host:port,... of some brokers; without it the log is on SQLite.',
  ),
  kafkaTls: setting('KAFKA_TLS', 'false', flag, 'With true, connections to Kafka are encrypted.'),
  kafkaTlsCa: unset(
    'KAFKA_TLS_CA_FILE',
    certificateFile,
    'PEM file of the authority of its certificates; default: those Node knows.',
  ),
  kafkaTlsCert: unset(
    'KAFKA_TLS_CERT_FILE',
    certificateFile,
    'PEM file of the certificate shown to Kafka, with KAFKA_TLS_KEY_FILE.',
  ),
  kafkaTlsKey: unset(
    'KAFKA_TLS_KEY_FILE',
    pemFile((pem) => createPrivateKey(pem)),
    'PEM file of the private key of KAFKA_TLS_CERT_FILE.',
  ),
  kafkaSaslMechanism: unset(
    'KAFKA_SASL_MECHANISM',
    oneOf(['plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer', 'aws-msk-iam']),
    'How to sign in to Kafka: plain (use it with KAFKA_TLS only), scram-sha-256 or scram-sha-512 with a user name; oauthbearer with a token by KAFKA_SASL_OAUTH_*; aws-msk-iam with the credentials of this machine on AWS.',
  ),
  kafkaSaslUsername: unset('KAFKA_SASL_USERNAME', text, 'User name for Kafka.'),
  kafkaSaslPassword: secret('KAFKA_SASL_PASSWORD', optional(text), 'The password of that user.'),
  kafkaOauthTokenUrl: unset(
    'KAFKA_SASL_OAUTH_TOKEN_URL',
    tokenUrl,
    'Token endpoint of the issuer, for KAFKA_SASL_MECHANISM=oauthbearer: an https:// URL, or http:// on this machine.',
  ),
  kafkaOauthClientId: unset('KAFKA_SASL_OAUTH_CLIENT_ID', text, 'Client id at the issuer.'),
  kafkaOauthClientSecret: secret(
    'KAFKA_SASL_OAUTH_CLIENT_SECRET',
    optional(text),
    'The secret of that client.',
  ),
  kafkaOauthScope: unset('KAFKA_SASL_OAUTH_SCOPE', text, 'Scope of the requested tokens.'),
  kafkaOauthExtensions: setting(
    'KAFKA_SASL_OAUTH_EXTENSIONS',
    '',
    saslExtensions,
    'SASL extensions for the brokers, as name=value,...: Confluent Cloud wants logicalCluster and identityPoolId.',
  ),
  kafkaAwsRegion: unset(
    'KAFKA_SASL_AWS_REGION',
    text,
    'AWS region of the MSK cluster, for KAFKA_SASL_MECHANISM=aws-msk-iam.',
  ),
  kafkaSessionTimeoutMs: setting(
    'KAFKA_SESSION_TIMEOUT',
    '6s',
    duration(1_000, 300_000),
    'After how long without a sign of life a processor loses its partitions; the brokers bound it (6s at least by default).',
  ),
  prefix: setting(
    'TRIBUTARY_PREFIX',
    '',
    prefix,
    'Put before all names in the engines, so that several installations can share them.',
  ),
  createTopics: setting(
    'TRIBUTARY_CREATE_TOPICS',
    'true',
    flag,
    'With false, only `tributary topics` creates topics on Kafka; a process waits until they are there.',
  ),
  replication: unset(
    'TRIBUTARY_REPLICATION',
    number(1, 32),
    'Copies of each topic on Kafka; default: 3, or one a broker where there are fewer.',
  ),
  redisUrl: secret(
    'REDIS_URL',
    orNone(redisUrls),
    'Redis for deduplication, counts and the live stream, as redis://[user:password@]host:port[/database] or rediss:// (TLS), comma-separated for the nodes of a cluster, or for the sentinels of REDIS_SENTINEL_PRIMARY. tributary gateway and processor need it, or the word none where all processes share one data folder.',
  ),
  redisTlsCa: unset(
    'REDIS_TLS_CA_FILE',
    certificateFile,
    'PEM file of the authority of its certificates; default: those Node knows.',
  ),
  redisSentinelPrimary: unset(
    'REDIS_SENTINEL_PRIMARY',
    text,
    'Name under which the sentinels at REDIS_URL watch the primary; the rest of REDIS_URL is for the servers.',
  ),
  redisSentinelUsername: unset(
    'REDIS_SENTINEL_USERNAME',
    text,
    'User name for the sentinels; default: none.',
  ),
  redisSentinelPassword: secret(
    'REDIS_SENTINEL_PASSWORD',
    optional(text),
    'Password for the sentinels, where they want one.',
  ),
  elasticsearchUrl: setting(
    'ELASTICSEARCH_URL',
    '',
    orNone(elasticsearchUrls),
    'Elasticsearch for the profiles and the history, as http:// or https:// URLs, comma-separated for the nodes of a cluster. tributary gateway and processor need it, or the word none where all processes share one data folder.',
  ),
  profileShards: setting(
    'ELASTICSEARCH_PROFILE_SHARDS',
    '1',
    number(1, 64),
    'Primary shards of the index of the profiles, when it is made; about one for each 100 million profiles.',
  ),
  profileNulls: setting(
    'TRIBUTARY_PROFILE_NULLS',
    'unset',
    oneOf(NULL_HANDLINGS),
    'What null means as an attribute of a profile: unset takes the attribute away, keep stores null as its value.',
  ),
  profileValues: setting(
    'TRIBUTARY_PROFILE_VALUES',
    String(DEFAULT_PROFILE_BOUNDS.values),
    number(1, MAX_PROFILE_BOUNDS.values),
    'Attributes, preferences and consents of one profile, at most, unset ones included. The same on every process.',
  ),
  profileBytes: setting(
    'TRIBUTARY_PROFILE_BYTES',
    String(DEFAULT_PROFILE_BOUNDS.bytes),
    number(4_096, MAX_PROFILE_BOUNDS.bytes),
    'The same for the bytes of one profile as it is stored, up to 1 MiB: every write rewrites all of it.',
  ),
  elasticsearchApiKey: secret(
    'ELASTICSEARCH_API_KEY',
    optional(text),
    'The API key that signs in to Elasticsearch, in its encoded form.',
  ),
  elasticsearchServiceToken: secret(
    'ELASTICSEARCH_SERVICE_TOKEN',
    optional(text),
    'The token of a service account of Elasticsearch, instead of an API key.',
  ),
  elasticsearchUsername: unset(
    'ELASTICSEARCH_USERNAME',
    text,
    'User name for Elasticsearch, instead of an API key.',
  ),
  elasticsearchPassword: secret('ELASTICSEARCH_PASSWORD', optional(text), 'The password of that user.'),
  elasticsearchTlsCa: unset(
    'ELASTICSEARCH_TLS_CA_FILE',
    certificateFile,
    'PEM file of the authority of its certificates; default: those Node knows.',
  ),
  schemaRegistryUrl: unset(
    'SCHEMA_REGISTRY_URL',
    registryUrl,
    'Schema registry with the API of Confluent, for the public topics on Kafka.',
  ),
  schemaRegistryUsername: unset('SCHEMA_REGISTRY_USERNAME', text, 'User name for the schema registry.'),
  schemaRegistryPassword: secret('SCHEMA_REGISTRY_PASSWORD', optional(text), 'The password of that user.'),
} as const;

function brokers(value: string): readonly string[] {
  const addresses = list(value);
  const wrong = addresses.findIndex((address) => !isAddress(address));
  if (wrong >= 0) throw new Error(`must be host:port,...: number ${wrong + 1} is not`);
  return addresses;
}

function isAddress(address: string): boolean {
  const port = Number(/^[^\s/@]+:(\d{1,5})$/.exec(address)?.[1]);
  return port >= 1 && port <= 65_535;
}

function prefix(value: string): string {
  if (/^[A-Za-z0-9._-]{0,60}$/.test(value)) return value;
  throw new Error('must be at most 60 letters, digits, . _ -');
}

/** Client secrets go there, so only this machine may be called without encryption. */
function tokenUrl(value: string): string {
  if (URL.canParse(value) && isSafeUrl(new URL(value))) return value;
  throw new Error('must be an https:// URL');
}

/** Names are letters, and `auth` is the token itself (RFC 7628). */
function saslExtensions(value: string): ReadonlyMap<string, string> {
  return new Map(
    list(value).map((pair) => {
      const [, name, text] = /^(?!auth=)([A-Za-z]+)=([\x20-\x7e]+)$/.exec(pair) ?? [];
      if (name === undefined || text === undefined)
        throw new Error('must be name=value,...: names are letters, and none is auth');
      return [name, text];
    }),
  );
}

/** The message never contains the value, which may hold a password. */
function redisUrls(value: string): string {
  const urls = list(value);
  if (urls.length > 0 && urls.every((url) => isUrl(url, /^rediss?:$/))) return value;
  throw new Error('must be redis:// or rediss:// URLs');
}

function elasticsearchUrls(value: string): readonly string[] {
  const urls = list(value);
  if (urls.length === 0 || !urls.every((url) => isUrl(url, /^https?:$/)))
    throw new Error('must be http:// or https:// URLs');
  if (urls.every(hasNoCredentials)) return urls;
  throw new Error(
    'must not hold credentials: use ELASTICSEARCH_API_KEY, or ELASTICSEARCH_USERNAME and ELASTICSEARCH_PASSWORD',
  );
}

function registryUrl(value: string): string {
  if (!isUrl(value, /^https?:$/)) throw new Error('must be an http:// or https:// URL');
  if (hasNoCredentials(value)) return value;
  throw new Error('must not hold credentials: use SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD');
}

function hasNoCredentials(url: string): boolean {
  const { username, password } = new URL(url);
  return username === '' && password === '';
}

function isUrl(value: string, protocol: RegExp): boolean {
  return URL.canParse(value) && protocol.test(new URL(value).protocol);
}

/** The address of a mail server. */
interface SmtpAddress {
  readonly host: string;
  readonly port: number;
  /** Encrypted from the first byte. */
  readonly tls: boolean;
}

/** The variables of the mail server. Without it mails wait, for three quarters of the log's retention. */
export const MAIL_SETTINGS = {
  smtpUrl: unset(
    'TRIBUTARY_SMTP_URL',
    smtpUrl,
    'Mail server, as smtp://host[:587] (STARTTLS, which a user name requires) or smtps://host[:465]; without it mails wait.',
  ),
  smtpUsername: unset('TRIBUTARY_SMTP_USERNAME', text, 'User name for the mail server.'),
  smtpPassword: secret('TRIBUTARY_SMTP_PASSWORD', optional(text), 'The password of that user.'),
  smtpTlsCa: unset(
    'TRIBUTARY_SMTP_TLS_CA_FILE',
    certificateFile,
    'PEM file of the authority of its certificate; default: those Node knows.',
  ),
  mailFrom: unset('TRIBUTARY_MAIL_FROM', address, 'The address mails come from, e.g. tributary@example.com.'),
  mailEveryMs: setting(
    'TRIBUTARY_MAIL_EVERY',
    '1m',
    duration(1_000, 3_600_000),
    'Least time between two mails of an organization to one address; notices in between become one.',
  ),
  mailsPerHour: setting(
    'TRIBUTARY_MAILS_PER_HOUR',
    '60',
    number(3, 100_000),
    'Mails of an organization in an hour, about; to one address a third of it.',
  ),
} as const;

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'smtp:': 587, 'smtps:': 465 };

/** The message never contains the value, which may hold a password. */
function smtpUrl(value: string): SmtpAddress {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const defaultPort = DEFAULT_PORTS[url?.protocol ?? ''];
  if (url === undefined || defaultPort === undefined || url.hostname === '')
    throw new Error('must be an smtp:// or smtps:// URL');
  if (!hasNoCredentials(value))
    throw new Error('must not hold credentials: use TRIBUTARY_SMTP_USERNAME and TRIBUTARY_SMTP_PASSWORD');
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '')
    throw new Error('must be a host and a port, nothing more');
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  return { host, port: Number(url.port) || defaultPort, tls: url.protocol === 'smtps:' };
}

function address(value: string): string {
  if (normalizeEmail(value) !== undefined && !/[<>()[\],;:\\"]/.test(value)) return value;
  throw new Error('must be an e-mail address, nothing around it');
}

/** An identity provider that people sign in with. */
interface IssuerSettings {
  /** Its URL, and the exact `iss` of its tokens. */
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly algorithms: readonly string[];
  readonly emailDomains: readonly string[];
}

const DEFAULT_ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'];

/** The issuers of ID tokens that are accepted. */
export const ISSUER_SETTINGS = {
  issuers: setting(
    'TRIBUTARY_ISSUERS',
    '',
    issuers,
    `A JSON list of \`{ "issuer": "https://...", "audiences": ["<client id>"] }\`; optional: \`algorithms\` (default ${DEFAULT_ALGORITHMS.join(', ')}; asymmetric ones alone) and \`email_domains\`, which lets in only people with a verified address there. The word ${NONE}: API keys alone.`,
  ),
} as const;

const FIELDS = ['issuer', 'audiences', 'algorithms', 'email_domains'];

function issuers(value: string): readonly IssuerSettings[] {
  if (value === '' || value === NONE) return [];
  const given = jsonOf(value);
  if (!Array.isArray(given)) throw new Error('must be a JSON list of issuers');
  const found: IssuerSettings[] = [];
  for (const [i, each] of given.entries()) {
    const parsed = issuer(each, `[${i}]`);
    if (found.some((other) => other.issuer === parsed.issuer))
      throw new Error(`[${i}] is an issuer that was named before`);
    found.push(parsed);
  }
  return found;
}

function issuer(value: unknown, at: string): IssuerSettings {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error(`${at} must be an object`);
  const fields = value as Readonly<Record<string, unknown>>;
  const unknown = Object.keys(fields).find((name) => !FIELDS.includes(name));
  if (unknown !== undefined)
    throw new Error(`${at} has the unknown field "${unknown}"; there are ${FIELDS.join(', ')}`);
  const { issuer, audiences, algorithms = DEFAULT_ALGORITHMS, email_domains: domains = [] } = fields;
  if (typeof issuer !== 'string' || !isIssuerUrl(issuer))
    throw new Error(
      `${at} must have an issuer: an https:// URL without a query (http:// on this machine alone)`,
    );
  if (!areTexts(audiences) || audiences.length === 0)
    throw new Error(`${at} must have audiences: a list of one text at least`);
  if (!areTexts(algorithms) || algorithms.length === 0 || !algorithms.every(isAsymmetric))
    throw new Error(`${at} may have algorithms: a list of ${SIGNATURE_ALGORITHMS.join(', ')}`);
  if (!areTexts(domains) || !domains.every((domain) => DOMAIN.test(domain)))
    throw new Error(`${at} may have email_domains: a list of names such as "example.com"`);
  return { issuer, audiences, algorithms, emailDomains: domains.map((domain) => domain.toLowerCase()) };
}

const DOMAIN = /^[a-z0-9-]+(\.[a-z0-9-]+)+$/i;

function isIssuerUrl(text: string): boolean {
  if (!URL.canParse(text) || /[?#]/.test(text)) return false;
  const url = new URL(text);
  return isSafeUrl(url) && url.username === '' && url.password === '';
}

function isAsymmetric(algorithm: string): boolean {
  return SIGNATURE_ALGORITHMS.some((known) => known === algorithm);
}

function areTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string' && each !== '');
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;

/** The standard variables of OpenTelemetry that Tributary knows. Without an endpoint or an exporter tracing is off. */
export const TRACING_SETTINGS = {
  tracesExporter: unset(
    'OTEL_TRACES_EXPORTER',
    oneOf(['otlp', 'none']),
    'With otlp, spans are exported, by default to http://localhost:4318; with none not. Default: otlp where an endpoint is set.',
  ),
  otlpEndpoint: unset(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    endpoint,
    'Address of an OTLP collector, e.g. http://collector:4318; /v1/traces is added to it.',
  ),
  otlpTracesEndpoint: unset(
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    endpoint,
    'Address that spans are sent to, as it is.',
  ),
  otlpProtocol: setting(
    'OTEL_EXPORTER_OTLP_PROTOCOL',
    'http/protobuf',
    oneOf(['http/protobuf', 'http/json']),
    'Encoding of the spans. grpc is not supported.',
  ),
  otlpHeaders: secret(
    'OTEL_EXPORTER_OTLP_HEADERS',
    headers,
    'Headers for the collector, as name=value,... with URL-encoded values.',
  ),
  tracesSampler: setting(
    'OTEL_TRACES_SAMPLER',
    'parentbased_always_on',
    oneOf(SAMPLERS),
    'Which events are traced; parentbased samplers follow the traceparent of the producer.',
  ),
  tracesSamplerRatio: setting(
    'OTEL_TRACES_SAMPLER_ARG',
    '1',
    ratio,
    'The traced part of events, for the samplers by ratio: 0.01 traces one of a hundred.',
  ),
  spanDelay: setting(
    'OTEL_BSP_SCHEDULE_DELAY',
    '5000',
    number(1, 600_000),
    'How long spans wait for others before they are exported, ms.',
  ),
  otelDisabled: setting('OTEL_SDK_DISABLED', 'false', flag, 'With true, tracing is off in any case.'),
  serviceName: unset(
    'OTEL_SERVICE_NAME',
    text,
    'Name of the service on spans; default: tributary-gateway or tributary-processor. OTEL_RESOURCE_ATTRIBUTES adds attributes.',
  ),
} as const;

function endpoint(value: string): string {
  if (isUrl(value, /^https?:$/)) return value;
  throw new Error('must be an http:// or https:// URL');
}

function ratio(value: string): number {
  if (/^\d(\.\d{1,12})?$/.test(value) && Number(value) <= 1) return Number(value);
  throw new Error('must be a number from 0 to 1');
}

/** The message never contains the value, which may hold credentials. */
function headers(value: string): Readonly<Record<string, string>> {
  const fault = 'must be name=value,... with URL-encoded values';
  return Object.fromEntries(
    list(value).map((pair) => {
      const [, name, encoded] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=(.*)$/.exec(pair) ?? [];
      if (name === undefined || encoded === undefined) throw new Error(fault);
      return [name, orFault(fault, () => decodeURIComponent(encoded.trim()))];
    }),
  );
}
