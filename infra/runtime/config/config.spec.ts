import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { QUOTA_NAMES, QUOTAS } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  ConfigError,
  readApiKey,
  readClusterConfig,
  readCommandConfig,
  readConfig,
  readDevConfig,
} from './config.ts';
import type { Setting } from './setting.ts';
import { quotasOf, SETTINGS } from './settings.ts';

const SOMEBODY = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70';

describe('configuration', () => {
  it('listens on every address if the roles are distributed, and on loopback if one process has all roles', () => {
    const onKafka = { KAFKA_BROKERS: 'kafka:9092', REDIS_URL: 'none', ELASTICSEARCH_URL: 'none' };
    expect(readClusterConfig(onKafka).host).toBe('0.0.0.0');
    expect(readClusterConfig({ ...onKafka, HOST: '' }).host).toBe('0.0.0.0');
    expect(readClusterConfig({ ...onKafka, HOST: '10.0.0.7' }).host).toBe('10.0.0.7');
    expect(readClusterConfig(onKafka).adminHost).toBe('127.0.0.1');
    expect(readDevConfig({}).host).toBe('127.0.0.1');
  });

  it('reports all faults at once', () => {
    const read = () => readConfig({ PORT: 'eighty', TRIBUTARY_RETENTION: '7', LOG_LEVEL: 'loud' });
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(/PORT.*\n.*LOG_LEVEL.*\n.*TRIBUTARY_RETENTION/);
  });

  it('had the defaults of dev also beside serve, which allowed destinations on loopback: only commands beside dev have them', () => {
    expect(readCommandConfig({}).egressAllow).toEqual(['127.0.0.0/8']);
    const keys = { TRIBUTARY_SECRET_KEYS: `k1:${Buffer.alloc(32).toString('base64')}` };
    expect(readCommandConfig(keys)).toMatchObject({ egressAllow: [], devIssuer: false });
  });

  it('refused to start in a terminal that exports the key of tributary plan', () => {
    expect(readDevConfig({ TRIBUTARY_API_KEY: 'key' }).port).toBe(8080);
    expect(readConfig({ TRIBUTARY_API_KEY_FILE: '/run/secrets/key' }).port).toBe(8080);
  });

  it('reads the API key of a command from a variable or from a file', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tributary-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'key');
    writeFileSync(file, 'trb_ak_file\n');
    expect(readApiKey({ TRIBUTARY_API_KEY: 'trb_ak_1' })).toBe('trb_ak_1');
    expect(readApiKey({ TRIBUTARY_API_KEY_FILE: file })).toBe('trb_ak_file');
    for (const [environment, fault] of [
      [{}, 'TRIBUTARY_API_KEY is needed'],
      [{ TRIBUTARY_API_KEY_FILE: join(folder, 'none') }, 'can be read'],
      [{ TRIBUTARY_API_KEY: 'a', TRIBUTARY_API_KEY_FILE: file }, 'exclude each other'],
    ] as const)
      expect(() => readApiKey(environment)).toThrow(fault);
  });

  it.each([
    ['TRIBUTARY_DATADIR', 'TRIBUTARY_DATA_DIR'],
    ['KAFKA_BROKER', 'KAFKA_BROKERS'],
    ['REDIS_HOST', 'REDIS_URL'],
    ['REDIS_SENTINEL_MASTER', 'REDIS_SENTINEL_PASSWORD'],
    ['elasticsearch_url', 'ELASTICSEARCH_URL'],
    ['ELASTIC_SEARCH_URL', 'ELASTICSEARCH_URL'],
    ['SCHEMA_REGISTRY_URI', 'SCHEMA_REGISTRY_URL'],
  ])('%s was ignored, and each process had stores of its own: refused', (name, meant) => {
    expect(() => readConfig({ [name]: 'x' })).toThrow(
      `${name} is not a known variable; did you mean ${meant}?`,
    );
  });

  it.each([
    {
      KAFKA_PORT: 'tcp://10.1.2.3:9092',
      KAFKA_PORT_9092_TCP_ADDR: '10.1.2.3',
      KAFKA_SERVICE_HOST: '10.1.2.3',
    },
    { REDIS_SERVICE_PORT_CLIENT: '6379', REDIS_SENTINEL_PORT: 'tcp://10.0.0.1:26379' },
    { KAFKA_HOME: '/opt/kafka', KAFKA_HEAP_OPTS: '-Xmx1g', REDIS_ENV_VERSION: '7', ELASTICSEARCH_HOME: '/x' },
  ])('passes over what platforms and other tools set: %o', (environment) => {
    expect(readConfig(environment)).toEqual(readConfig({}));
  });

  it.each([
    ['KAFKA_SESSION_TIMEOUT', '1h', 'must be a number with a unit (ms, s, m, h, d) from 1s to 5m'],
    [
      'TRIBUTARY_DISK_RESERVE',
      '9999999TiB',
      'must be a number with a unit (MiB, GiB, TiB) from 0MiB to 1024TiB',
    ],
    ['PORT', '65536', 'must be a whole number from 0 to 65535'],
  ])('said of %s=%s that it is out of bounds, and not of which', (name, value, fault) => {
    expect(() => readConfig({ [name]: value })).toThrow(`${name} ${fault}`);
  });

  it('a role of a cluster without an engine that its siblings have kept stores of its own: it is told so, or refuses', () => {
    const KAFKA_BROKERS = 'kafka:9092';
    expect(() => readClusterConfig({ KAFKA_BROKERS })).toThrow(
      /REDIS_URL is needed: .*\n.*ELASTICSEARCH_URL is needed/,
    );
    const told = readClusterConfig({ KAFKA_BROKERS, REDIS_URL: 'none', ELASTICSEARCH_URL: 'none' });
    expect(told).toMatchObject({ redisUrl: undefined, elasticsearchUrl: undefined });
  });

  it.each([
    [
      'a topic of its own, which one event would have broken for good',
      { TRIBUTARY_TOPICS: 'vip,catalog' },
      'own',
    ],
    ['a topic twice', { TRIBUTARY_TOPICS: 'vip,vip' }, 'twice'],
    ['tenants of a topic that is not there', { TRIBUTARY_TOPIC_TENANTS: `vip=${SOMEBODY}` }, 'names "vip"'],
    ['tenants that are none', { TRIBUTARY_TOPICS: 'vip', TRIBUTARY_TOPIC_TENANTS: 'vip=acme' }, 'form'],
    ['a topic without its tenants', { TRIBUTARY_TOPICS: 'vip', TRIBUTARY_TOPIC_TENANTS: 'vip=' }, 'form'],
    ['a retry schedule that goes back', { TRIBUTARY_RETRY_SCHEDULE: '1m,10s' }, 'TRIBUTARY_RETRY_SCHEDULE'],
    ['ranges that are none', { TRIBUTARY_EGRESS_ALLOW: 'foo' }, 'TRIBUTARY_EGRESS_ALLOW'],
    [
      'secrets of partners that are none',
      { TRIBUTARY_SEGMENT_SECRETS: '{"A":1}' },
      'whose members are texts',
    ],
    [
      'OAuth clients that are none',
      { TRIBUTARY_OAUTH_CLIENTS: '{"google":{"id":"a"}}' },
      'whose members are { ',
    ],
    ['a key that is none', { TRIBUTARY_DEV_ISSUER_KEY: 'foo' }, 'is no private JWK'],
    [
      'records kept shorter than deliveries are tried',
      { TRIBUTARY_RETENTION: '12h' },
      'TRIBUTARY_RETRY_EXPIRY',
    ],
    [
      'a history shorter than the log',
      { TRIBUTARY_HISTORY_RETENTION: '6d' },
      'TRIBUTARY_HISTORY_RETENTION must not be shorter than TRIBUTARY_RETENTION',
    ],
  ])('refuses %s', (_, environment, message) => {
    expect(() => readConfig(environment)).toThrow(ConfigError);
    expect(() => readConfig(environment)).toThrow(message);
  });

  it('accepts a public URL as an origin', () => {
    const read = (value: string) => readConfig({ TRIBUTARY_PUBLIC_URL: value }).publicUrl;
    expect(read('')).toBeUndefined();
    expect(read('https://collect.shop.example/')).toBe('https://collect.shop.example');
    for (const wrong of ['collect.shop.example', 'ftp://a.example', 'https://a.example/v1', 'https://*'])
      expect(() => read(wrong), wrong).toThrow('TRIBUTARY_PUBLIC_URL');
  });

  it.each(['1', 'true'])('accepts %s as true, and treats the default in any form as absent', (on) => {
    expect(readConfig({ TRIBUTARY_DEV_ISSUER: on }).devIssuer).toBe(true);
    expect(readConfig({ KAFKA_TLS: '0' }).kafkaTls).toBe(false);
    expect(() => readConfig({ KAFKA_TLS: 'yes' })).toThrow('KAFKA_TLS must be true or false');
  });

  it('parses rates per second, with fractions, and memory with its unit', () => {
    const config = readConfig({ TRIBUTARY_CALL_RATE: '0.5', TRIBUTARY_STAGES_HEAP: '2GiB' });
    expect(config).toMatchObject({ callRate: 0.5, stagesHeapMib: 2_048, sandboxMemoryMib: 64 });
    const wrong = {
      TRIBUTARY_CALL_RATE: '30/m',
      TRIBUTARY_SANDBOX_MEMORY: '64',
      TRIBUTARY_STAGES_HEAP: '1MiB',
    };
    for (const name of Object.keys(wrong)) expect(() => readConfig(wrong), name).toThrow(name);
  });

  it('reads every secret from a file, and never prints its content', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tributary-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const [file, empty] = [join(folder, 'secret'), join(folder, 'empty')];
    writeFileSync(file, 'redis://:hidden@r:6379\n');
    writeFileSync(empty, '\n');
    expect(readConfig({ REDIS_URL_FILE: file }).redisUrl).toBe('redis://:hidden@r:6379');
    const secrets = Object.values<Setting<unknown>>(SETTINGS).filter(({ isSecret }) => isSecret);
    expect(secrets.map(({ name }) => name)).toContain('TRIBUTARY_SECRET_KEYS');
    for (const { name } of secrets) {
      expect(() => readConfig({ [`${name}_FILE`]: empty }), name).toThrow(`${name}_FILE must name a file`);
      const both = () => readConfig({ [name]: 'hidden', [`${name}_FILE`]: file });
      expect(both, name).toThrow(`${name} and ${name}_FILE exclude each other`);
      expect(both, name).not.toThrow('hidden');
      // A value from the file is read like one from the variable.
      const told = (environment: Readonly<Record<string, string>>) => {
        try {
          return readConfig(environment);
        } catch (error) {
          return error instanceof ConfigError ? error.problems : error;
        }
      };
      const value = 'redis://:hidden@r:6379';
      expect(told({ [`${name}_FILE`]: file }), name).toEqual(told({ [name]: value }));
    }
    expect(() => readConfig({ PORT_FILE: file, TRIBUTARY_PREFIX_FILE: file })).toThrow(
      'TRIBUTARY_PREFIX_FILE is not a known variable',
    );
  });

  it('has a `_FILE` variable for every password and key', () => {
    const named = Object.values<Setting<unknown>>(SETTINGS).filter(({ name }) =>
      /^(?!TRIBUTARY_QUOTA_).*(PASSWORD|_KEYS?|SECRET|TOKEN|_HEADERS)$/.test(name),
    );
    expect(named.filter(({ isSecret }) => isSecret !== true)).toEqual([]);
  });
});

const document = readFileSync(new URL('../../../docs/reference/limits.md', import.meta.url), 'utf8');

describe('each quota', () => {
  it('has a setting, and a default where nothing is set', () => {
    expect(quotasOf(readConfig({}))).toEqual(
      Object.fromEntries(QUOTA_NAMES.map((name) => [name, QUOTAS[name].fallback])),
    );
    const environment = Object.fromEntries(
      QUOTA_NAMES.map((name, n) => [`TRIBUTARY_QUOTA_${name.toUpperCase()}`, String(n)]),
    );
    expect(Object.values(quotasOf(readConfig(environment)))).toEqual(QUOTA_NAMES.map((_, n) => n));
    expect(() => readConfig({ TRIBUTARY_QUOTA_RULES: '-1' })).toThrow('TRIBUTARY_QUOTA_RULES');
  });

  it('allows no more entities in use than in total', () => {
    for (const name of QUOTA_NAMES) {
      const inUse = QUOTA_NAMES.find((other) => `${other}_total` === name);
      if (inUse !== undefined) expect(QUOTAS[inUse].fallback).toBeLessThan(QUOTAS[name].fallback);
    }
  });
});

describe('docs/reference/limits.md', () => {
  it('lists only existing settings, and the default of each limit of rates and streams', () => {
    const known = new Map(Object.values(SETTINGS).map(({ name, fallback }) => [name as string, fallback]));
    for (const [name] of document.matchAll(/TRIBUTARY_[A-Z_]+/g)) expect([...known.keys()]).toContain(name);
    for (const name of ['CHANGE_RATE', 'CHANGE_RATE_PER_ACCOUNT', 'LIVE_STREAMS'].concat(
      ['WORKSPACE', 'ORGANIZATION', 'ACCOUNT'].map((scope) => `LIVE_STREAMS_PER_${scope}`),
    )) {
      expect(document).toContain(`: ${known.get(`TRIBUTARY_${name}`)}, \`TRIBUTARY_${name}\` (`);
    }
  });
});
