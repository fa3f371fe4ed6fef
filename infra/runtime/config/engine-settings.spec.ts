import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError, readConfig } from './config.ts';

const KAFKA = { KAFKA_BROKERS: 'a:9092, b:9093' };
const TOKENS = {
  KAFKA_SASL_MECHANISM: 'oauthbearer',
  KAFKA_SASL_OAUTH_TOKEN_URL: 'https://issuer.example.com/token',
  KAFKA_SASL_OAUTH_CLIENT_ID: 'tributary',
  KAFKA_SASL_OAUTH_CLIENT_SECRET: 'hidden',
};
const SIGN_IN = { KAFKA_SASL_USERNAME: 'u', KAFKA_SASL_PASSWORD: 'hidden' };

/** The problems that `readConfig` reports. */
function problems(environment: Readonly<Record<string, string>>): readonly string[] {
  try {
    readConfig(environment);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

describe('the variables of the engines', () => {
  let folder: string;
  let keyFile: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tributary-'));
    keyFile = join(folder, 'key.pem');
    const { privateKey } = generateKeyPairSync('ed25519');
    writeFileSync(keyFile, privateKey.export({ format: 'pem', type: 'pkcs8' }));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('select each engine independently', () => {
    expect(readConfig(KAFKA).kafkaBrokers).toEqual(['a:9092', 'b:9093']);
    expect(readConfig({ REDIS_URL: 'redis://r:6379,redis://s:6379' }).redisUrl).toContain('redis://s');
    expect(problems({ ...KAFKA, SCHEMA_REGISTRY_URL: 'https://r/apis/ccompat/v7' })).toEqual([]);
    const search = { ELASTICSEARCH_URL: 'https://e:9200, https://f:9200', ELASTICSEARCH_API_KEY: 'hidden' };
    expect(readConfig(search)).toMatchObject({
      elasticsearchUrl: ['https://e:9200', 'https://f:9200'],
      elasticsearchApiKey: 'hidden',
    });
    expect(
      problems({
        ...KAFKA,
        KAFKA_TLS: '1',
        KAFKA_SASL_MECHANISM: 'scram-sha-512',
        ...SIGN_IN,
      }),
    ).toEqual([]);
  });

  it('select how Kafka is signed in to, and what leads to Redis', () => {
    const extensions = { KAFKA_SASL_OAUTH_EXTENSIONS: 'logicalCluster=lkc-1, identityPoolId=pool-2' };
    expect(readConfig({ ...KAFKA, ...TOKENS, ...extensions }).kafkaOauthExtensions).toEqual(
      new Map([
        ['logicalCluster', 'lkc-1'],
        ['identityPoolId', 'pool-2'],
      ]),
    );
    const aws = { KAFKA_SASL_MECHANISM: 'aws-msk-iam', KAFKA_SASL_AWS_REGION: 'eu-central-1' };
    expect(problems({ ...KAFKA, ...aws })).toEqual([]);
    const sentinels = { REDIS_URL: 'redis://s1,redis://s2', REDIS_SENTINEL_PRIMARY: 'tributary' };
    expect(problems({ ...sentinels, REDIS_SENTINEL_PASSWORD: 'hidden' })).toEqual([]);
  });

  it.each([
    ['brokers without a port', { KAFKA_BROKERS: 'a' }, /^KAFKA_BROKERS must be host:port/],
    ['a broker that is a URL', { KAFKA_BROKERS: 'http://a:9092' }, /^KAFKA_BROKERS must be host:port/],
    [
      'an unknown mechanism',
      { ...KAFKA, ...SIGN_IN, KAFKA_SASL_MECHANISM: 'gssapi' },
      /^KAFKA_SASL_MECHANISM must be one of plain/,
    ],
    [
      'a mechanism with the variables of another',
      { ...KAFKA, ...SIGN_IN, KAFKA_SASL_MECHANISM: 'aws-msk-iam', KAFKA_SASL_AWS_REGION: 'eu-central-1' },
      /^KAFKA_SASL_USERNAME is not for KAFKA_SASL_MECHANISM=aws-msk-iam$/,
    ],
    [
      'tokens without an issuer',
      { ...KAFKA, KAFKA_SASL_MECHANISM: 'oauthbearer' },
      /^KAFKA_SASL_MECHANISM=oauthbearer needs KAFKA_SASL_OAUTH_TOKEN_URL$/,
    ],
    [
      'an issuer that would get the secret without encryption',
      { ...KAFKA, ...TOKENS, KAFKA_SASL_OAUTH_TOKEN_URL: 'http://issuer.example.com/token' },
      /^KAFKA_SASL_OAUTH_TOKEN_URL must be an https:\/\/ URL$/,
    ],
    [
      'an extension that would replace the token',
      { ...KAFKA, ...TOKENS, KAFKA_SASL_OAUTH_EXTENSIONS: 'auth=x' },
      /^KAFKA_SASL_OAUTH_EXTENSIONS must be name=value/,
    ],
    [
      'a service token beside an API key of Elasticsearch',
      {
        ELASTICSEARCH_URL: 'http://e',
        ELASTICSEARCH_API_KEY: 'hidden',
        ELASTICSEARCH_SERVICE_TOKEN: 'hidden',
      },
      /^ELASTICSEARCH_API_KEY and ELASTICSEARCH_SERVICE_TOKEN exclude each other$/,
    ],
    ['a prefix that no topic may have', { TRIBUTARY_PREFIX: 'a/b' }, /^TRIBUTARY_PREFIX/],
    ['a Redis that is none', { REDIS_URL: 'localhost:6379' }, /^REDIS_URL must be redis:/],
    [
      'a registry with credentials in its URL',
      { ...KAFKA, SCHEMA_REGISTRY_URL: 'http://u:hidden@r' },
      /^SCHEMA_REGISTRY_URL must not hold credentials/,
    ],
    [
      'an Elasticsearch that is none',
      { ELASTICSEARCH_URL: 'http://e:9200,f:9200' },
      /^ELASTICSEARCH_URL must be http:/,
    ],
    ['TLS without Kafka', { KAFKA_TLS: '1' }, /^KAFKA_TLS needs KAFKA_BROKERS$/],
    [
      'a mechanism without a user',
      { ...KAFKA, KAFKA_SASL_MECHANISM: 'plain' },
      /^KAFKA_SASL_MECHANISM=plain needs KAFKA_SASL_USERNAME$/,
    ],
    [
      'a password without a user',
      { ...KAFKA, SCHEMA_REGISTRY_URL: 'http://r', SCHEMA_REGISTRY_PASSWORD: 'hidden' },
      /^SCHEMA_REGISTRY_PASSWORD needs SCHEMA_REGISTRY_USERNAME$/,
    ],
  ])('refuse %s', (_, environment, message) => {
    const found = problems(environment as Record<string, string>);
    expect(found).toEqual([expect.stringMatching(message)]);
    expect(found.join()).not.toContain('hidden');
  });

  it('read PEM files, and name an invalid one without its content', () => {
    const tls = { ...KAFKA, KAFKA_TLS: '1' };
    const wrong = problems({
      ...tls,
      KAFKA_TLS_CA_FILE: keyFile,
      KAFKA_TLS_CERT_FILE: join(folder, 'gone.pem'),
    });
    expect(wrong).toEqual([
      `KAFKA_TLS_CA_FILE must name a PEM file: ${keyFile} is none`,
      `KAFKA_TLS_CERT_FILE must name a file that can be read, not ${join(folder, 'gone.pem')}`,
      'KAFKA_TLS_CERT_FILE needs KAFKA_TLS_KEY_FILE',
    ]);
    expect(problems({ ...tls, KAFKA_TLS_KEY_FILE: keyFile })).toEqual([
      'KAFKA_TLS_KEY_FILE needs KAFKA_TLS_CERT_FILE',
    ]);
  });

  it('report faults of combinations together with all others', () => {
    expect(problems({ PORT: 'eighty', KAFKA_SASL_USERNAME: 'u', TRIBUTARY_RETENTION: '2h' })).toEqual([
      expect.stringMatching(/^PORT /),
      'KAFKA_SASL_USERNAME needs KAFKA_SASL_MECHANISM',
      'KAFKA_SASL_USERNAME needs KAFKA_SASL_PASSWORD',
      expect.stringMatching(/^TRIBUTARY_RETENTION .*RETRY_EXPIRY/),
      expect.stringMatching(/^TRIBUTARY_RETENTION .*DEDUPE_WINDOW/),
    ]);
  });
});

const FROM = { TRIBUTARY_MAIL_FROM: 'tributary@example.com' };

describe('the variables of the mail server', () => {
  it.each([
    ['smtp://mail.example.com', { host: 'mail.example.com', port: 587, tls: false }],
    ['smtps://mail.example.com', { host: 'mail.example.com', port: 465, tls: true }],
    ['smtp://127.0.0.1:2525/', { host: '127.0.0.1', port: 2525, tls: false }],
    ['smtps://[::1]:1', { host: '::1', port: 1, tls: true }],
  ])('is read from %s', (url, address) => {
    expect(readConfig({ ...FROM, TRIBUTARY_SMTP_URL: url }).smtpUrl).toEqual(address);
  });

  it.each([
    ['http://mail.example.com', 'must be an smtp:// or smtps:// URL'],
    ['mail.example.com:25', 'must be an smtp:// or smtps:// URL'],
    ['smtp://', 'must be an smtp:// or smtps:// URL'],
    ['smtp://mail.example.com/x', 'must be a host and a port, nothing more'],
    ['smtp://mail.example.com?tls=0', 'must be a host and a port, nothing more'],
  ])('is refused: %s', (url, fault) => {
    expect(() => readConfig({ ...FROM, TRIBUTARY_SMTP_URL: url })).toThrow(`TRIBUTARY_SMTP_URL ${fault}`);
  });

  it('must not contain a password, and the message does not repeat one', () => {
    const env = { ...FROM, TRIBUTARY_SMTP_URL: 'smtp://someone:correct-horse@mail.example.com' };
    expect(() => readConfig(env)).toThrow('use TRIBUTARY_SMTP_USERNAME and TRIBUTARY_SMTP_PASSWORD');
    expect(() => readConfig(env)).not.toThrow('horse');
  });

  it.each(['nobody', 'Name <a@example.com>', 'a@example.com, b@example.com', 'a@example.com\r\nBcc: b@c'])(
    'has one plain sender: not %j',
    (from) => {
      const env = { TRIBUTARY_SMTP_URL: 'smtp://m', TRIBUTARY_MAIL_FROM: from };
      expect(() => readConfig(env)).toThrow('TRIBUTARY_MAIL_FROM must be an e-mail address');
    },
  );

  it.each([
    ['TRIBUTARY_SMTP_URL needs TRIBUTARY_MAIL_FROM', { TRIBUTARY_SMTP_URL: 'smtp://m' }],
    ['TRIBUTARY_MAIL_FROM needs TRIBUTARY_SMTP_URL', FROM],
    ['TRIBUTARY_SMTP_USERNAME needs TRIBUTARY_SMTP_URL', { TRIBUTARY_SMTP_USERNAME: 'u' }],
    [
      'TRIBUTARY_SMTP_PASSWORD needs TRIBUTARY_SMTP_USERNAME',
      { ...FROM, TRIBUTARY_SMTP_URL: 'smtp://m', TRIBUTARY_SMTP_PASSWORD: 'p' },
    ],
  ])('is whole or not there: %s', (fault, env) => {
    expect(() => readConfig(env)).toThrow(fault);
  });
});

const ISSUER = { issuer: 'https://accounts.example.com', audiences: ['web'] };
const issuers = (value: unknown) => readConfig({ TRIBUTARY_ISSUERS: JSON.stringify(value) }).issuers;

describe('TRIBUTARY_ISSUERS', () => {
  it('accepts asymmetric algorithms and all email domains by default', () => {
    expect(issuers([ISSUER])).toEqual([
      { ...ISSUER, algorithms: ['RS256', 'PS256', 'ES256', 'EdDSA'], emailDomains: [] },
    ]);
  });

  it('lists several issuers, each with its own rules', () => {
    const other = { issuer: 'http://localhost:8081/realms/a', audiences: ['a', 'b'] };
    const rules = { algorithms: ['ES512'], email_domains: ['Example.com'] };
    expect(issuers([ISSUER, { ...other, ...rules }])[1]).toEqual({
      ...other,
      algorithms: ['ES512'],
      emailDomains: ['example.com'],
    });
  });

  it.each<[string, unknown, RegExp]>([
    ['no list', ISSUER, /must be a JSON list/],
    ['no object', ['https://a.example'], /\[0\] must be an object/],
    [
      'a misspelt field',
      [{ ...ISSUER, audience: 'web' }],
      /\[0\] has the unknown field "audience"; there are issuer,/,
    ],
    ['no issuer', [{ audiences: ['web'] }], /\[0\] must have an issuer/],
    ['an issuer over http', [{ ...ISSUER, issuer: 'http://accounts.example.com' }], /must have an issuer/],
    [
      'a host that begins like this machine',
      [{ ...ISSUER, issuer: 'http://127.0.0.1.evil.example' }],
      /must have/,
    ],
    ['an issuer with a query', [{ ...ISSUER, issuer: 'https://a.example/?x=1' }], /must have an issuer/],
    ['an issuer with a password', [{ ...ISSUER, issuer: 'https://u:p@a.example' }], /must have an issuer/],
    ['no audience', [{ ...ISSUER, audiences: [] }], /must have audiences/],
    ['an empty audience', [{ ...ISSUER, audiences: [''] }], /must have audiences/],
    ['an audience that is no list', [{ ...ISSUER, audiences: 'web' }], /must have audiences/],
    ['HMAC', [{ ...ISSUER, algorithms: ['HS256'] }], /may have algorithms/],
    ['no signature', [{ ...ISSUER, algorithms: ['RS256', 'none'] }], /may have algorithms/],
    ['no algorithm', [{ ...ISSUER, algorithms: [] }], /may have algorithms/],
    ['an address for a domain', [{ ...ISSUER, email_domains: ['a@b.c'] }], /may have email_domains/],
    ['the same issuer twice', [ISSUER, ISSUER], /\[1\] is an issuer that was named before/],
  ])('refuses %s', (_, value, message) => {
    expect(() => issuers(value)).toThrow(ConfigError);
    expect(() => issuers(value)).toThrow(message);
  });

  it('refuses text that is not JSON', () => {
    expect(() => readConfig({ TRIBUTARY_ISSUERS: 'https://a.example' })).toThrow(/must be a JSON list/);
  });
});
