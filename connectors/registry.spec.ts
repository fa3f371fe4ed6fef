import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Connector, NO_LOGGER } from '@tributary/core';
import { expect, test } from 'vitest';
import { sampleDelivery } from './delivery.fixture.ts';
import { neverThrowing } from './registry.ts';

const destination = { id: 'd1', workspaceId: 'w1', version: 1, settings: { secret: 'hidden' } };

const delivery = sampleDelivery('x1');

test('an unforeseen error of a connector is logged without settings and retried', async () => {
  const broken: Connector = {
    batchLimits: () => ({ events: 1 }),
    deliver: () => Promise.reject(new TypeError('our mistake')),
    test: () => Promise.reject(new TypeError('our mistake')),
    close: async () => {},
  };
  const logged: object[] = [];
  const held = neverThrowing('broken', broken, { ...NO_LOGGER, error: (fields) => logged.push(fields) });
  const { signal } = new AbortController();
  const results = await held.deliver(destination, [delivery, delivery], { signal });
  expect(results).toEqual(Array(2).fill({ outcome: 'retry', reason: 'unexpected failure' }));
  expect(await held.test(destination, { signal })).toEqual({ ok: false, reason: 'unexpected failure' });
  expect(logged).toEqual(Array(2).fill({ connector: 'broken', destination_id: 'd1', error: 'our mistake' }));
});

test('batch limits that throw make batches of one, so the stage continues, and are logged once', () => {
  const broken: Connector = {
    batchLimits: () => {
      throw new TypeError('our mistake');
    },
    deliver: async () => [],
    test: async () => ({ ok: true }),
    close: async () => {},
  };
  const logged: object[] = [];
  const held = neverThrowing('broken', broken, { ...NO_LOGGER, error: (fields) => logged.push(fields) });
  const asked = [held.batchLimits(destination), held.batchLimits(destination)];
  expect(asked).toEqual([{ events: 1 }, { events: 1 }]);
  expect(logged).toEqual([{ connector: 'broken', destination_id: 'd1', error: 'our mistake' }]);
});

const INDEX = fileURLToPath(new URL('./index.ts', import.meta.url));
const DRIVERS = /node_modules\/(kafkajs|ioredis|pg|@aws-sdk|@smithy|@segment)\//;
const LOADED = `import(process.argv[1]).then(() => console.log(JSON.stringify(Object.keys(require('node:module')._cache))))`;

test('no driver is loaded before the first delivery that needs it', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', LOADED, INDEX]);
  const loaded: string[] = JSON.parse(stdout);
  expect(loaded.some((path) => path.includes('/undici/'))).toBe(true);
  expect(loaded.filter((path) => DRIVERS.test(path))).toEqual([]);
});
