import type { Json } from '@tributary/core';
import { Redis } from 'ioredis';
import { describe } from 'vitest';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { removeKeys } from '../../../helpers/redis.ts';
import { connectorConformance } from '../suite/connector.conformance.ts';
import { startFaultyProxy } from '../suite/faulty-proxy.ts';
import { type ConnectorHarness, ENGINE_CONNECTORS, noEngine, type ReceivedBody } from '../suite/harness.ts';
import { networkConformance } from '../suite/network.conformance.ts';

describe.skipIf(engines() === undefined)('on a real engine', () => {
  connectorConformance('redis', redisHarness);
  networkConformance('redis', redisHarness);
});

async function redisHarness(): Promise<ConnectorHarness> {
  const url = new URL(engines()?.redisUrl ?? noEngine('redis'));
  const proxy = await startFaultyProxy({ host: url.hostname, port: Number(url.port) });
  const prefix = freshPrefix();
  const stream = `${prefix}events`;
  const reader = new Redis(url.href);
  const at = (host: string): Readonly<Record<string, Json>> => ({
    host,
    port: proxy.port,
    tls: false,
    // A server without passwords takes any from its default user.
    username: 'default',
    password: 'very-secret-password',
    database: 0,
    stream,
    max_length: 100_000,
    remember_hours: 25,
  });
  return {
    settings: at('127.0.0.1'),
    hopeless: { ...at('10.0.0.1'), port: 6379 },
    connectors: ENGINE_CONNECTORS,
    ordered: true,
    idempotent: true,
    network: { proxy, at, sharesConnections: true },
    received: async () => {
      const entries = await reader.xrange(stream, '-', '+');
      return entries.map(
        ([, fields]) => JSON.parse(fields[fields.indexOf('body') + 1] ?? '') as ReceivedBody,
      );
    },
    fail: async () => proxy.set('refuse'),
    mend: async () => proxy.set('pass'),
    close: async () => {
      await proxy.close();
      await removeKeys(url.href, prefix);
      reader.disconnect();
    },
  };
}
