import { describe, expect, it } from 'vitest';
import { ConfigError, describeConfig, readConfig } from './config.ts';

const SOMEBODY = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70';

describe('configuration', () => {
  it('has a default for everything', () => {
    const config = readConfig({});
    expect(config).toMatchObject({
      port: 8080,
      host: '127.0.0.1',
      devIssuer: false,
      retryExpiry: 86_400_000,
    });
  });

  it('names every fault at once', () => {
    const read = () => readConfig({ PORT: 'eighty', TRIBUTARY_RETENTION: '7', LOG_LEVEL: 'loud' });
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(/PORT.*\n.*LOG_LEVEL.*\n.*TRIBUTARY_RETENTION/);
  });

  it('refuses a misspelt variable instead of ignoring it', () => {
    expect(() => readConfig({ TRIBUTARY_DATADIR: '/tmp' })).toThrow(
      'TRIBUTARY_DATADIR is not a known variable',
    );
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
    ['a ladder that is none', { TRIBUTARY_RETRY_LADDER: '1m,10s' }, 'TRIBUTARY_RETRY_LADDER'],
    ['ranges that are none', { TRIBUTARY_EGRESS_ALLOW: 'foo' }, 'TRIBUTARY_EGRESS_ALLOW'],
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

  it('takes a public address as an origin', () => {
    const read = (value: string) => readConfig({ TRIBUTARY_PUBLIC_URL: value }).publicUrl;
    expect(read('')).toBeUndefined();
    expect(read('https://collect.shop.example/')).toBe('https://collect.shop.example');
    for (const wrong of ['collect.shop.example', 'ftp://a.example', 'https://a.example/v1', 'https://*'])
      expect(() => read(wrong), wrong).toThrow('TRIBUTARY_PUBLIC_URL');
  });

  it('treats an empty variable as absent', () => {
    expect(readConfig({ PORT: '' }).port).toBe(8080);
  });

  it('prints a row for every variable', () => {
    expect(describeConfig()).toContain('| `TRIBUTARY_DEDUPE_WINDOW` | `24h` |');
  });
});
