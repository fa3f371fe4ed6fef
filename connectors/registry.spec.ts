import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Connector, exposuresOf, isObject, NO_LOGGER } from '@tributary/core';
import { describe, expect, it, test, vi } from 'vitest';
import { sampleDelivery } from './delivery.fixture.ts';
import { CONNECTOR_KINDS, neverThrowing, WAREHOUSE_KINDS } from './registry.ts';
import { memoizeByObject } from './settings.ts';

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

/** Settings that change neither which party receives the secrets nor how they travel. A new setting is decided upon here. */
const INDIFFERENT: Readonly<Record<string, readonly string[]>> = {
  webhook: ['batch_size', 'rotation_hours', 'rotation_until'],
  ndjson: ['folder'],
  kafka: ['topic'],
  redis: ['database', 'stream', 'max_length', 'remember_hours'],
  elasticsearch: ['index'],
  postgres: ['database', 'table', 'create_table'],
  s3: ['prefix', 'path', 'batch_size', 'batch_bytes', 'batch_seconds'],
  'warehouse-postgresql': ['database', 'schema', 'load_every', 'max_event_tables'],
  'segment-braze': ['app_id'],
  'segment-drip': ['accountId'],
  'segment-mixpanel': ['sourceName', 'strictMode'],
  'segment-outfunnel': ['userId'],
  'segment-posthog': ['project_id', 'historical_migration', 'geoip_disable'],
  'segment-pushwoosh': ['pushwooshAppCode'],
};
const OF_THE_PACK = ['presets', 'actions'];

describe.each(
  [...CONNECTOR_KINDS, ...WAREHOUSE_KINDS].map(({ description }) => [description.type, description] as const),
)('settings of %s', (type, description) => {
  const { settingsSchema, secrets, exposing } = description;
  const { properties } = settingsSchema;
  const names = Object.keys(isObject(properties) ? properties : {});

  it('are each declared as a secret, as exposing secrets, or as neither', () => {
    const indifferent = [...(INDIFFERENT[type] ?? []), ...(type.startsWith('segment-') ? OF_THE_PACK : [])];
    const declared = [...secrets, ...exposing.map(({ setting }) => setting), ...indifferent];
    expect(declared.sort()).toEqual(names.sort());
  });

  it('that protect secrets declare all their values in order of safety', () => {
    for (const { setting, safestFirst } of exposing) {
      if (safestFirst === undefined) continue;
      const schema = isObject(properties) && isObject(properties[setting]) ? properties[setting] : {};
      const values = schema.type === 'boolean' ? [true, false] : schema.enum;
      expect([...safestFirst].sort()).toEqual(Array.isArray(values) ? [...values].sort() : []);
      const [safest] = safestFirst;
      const weakened = safestFirst
        .slice(1)
        .map((value) => exposuresOf({}, { [setting]: value }, description));
      // The default is the safest value, and applies where none is given.
      expect(schema.default).toBe(safest);
      expect(weakened.flat()).toEqual(safestFirst.slice(1).map(() => ({ setting, change: 'weaker' })));
    }
  });
});

test('a value derived from an object is computed once, also where it is undefined', () => {
  const make = vi.fn(({ n }: { n: number }) => (n === 0 ? undefined : { twice: 2 * n }));
  const of = memoizeByObject(make);
  const [one, none] = [{ n: 1 }, { n: 0 }];
  expect([of(one), of(none), of(one), of(none)]).toEqual([{ twice: 2 }, undefined, { twice: 2 }, undefined]);
  expect(of(one)).toBe(of(one));
  expect(make).toHaveBeenCalledTimes(2);
  expect(of({ n: 1 })).not.toBe(of(one));
});
