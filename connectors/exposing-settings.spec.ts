import { exposuresOf, isObject } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { CONNECTOR_KINDS } from './registry.ts';

/** Settings that change neither which party receives the secrets nor how they travel. A new setting is decided upon here. */
const INDIFFERENT: Readonly<Record<string, readonly string[]>> = {
  webhook: ['batch_size', 'rotation_hours', 'rotation_until'],
  ndjson: ['folder'],
  kafka: ['topic'],
  redis: ['database', 'stream', 'max_length', 'remember_hours'],
  elasticsearch: ['index'],
  postgres: ['database', 'table', 'create_table'],
  s3: ['prefix', 'path', 'batch_size', 'batch_bytes', 'batch_seconds'],
  'segment-braze': ['app_id'],
  'segment-drip': ['accountId'],
  'segment-mixpanel': ['sourceName', 'strictMode'],
  'segment-outfunnel': ['userId'],
  'segment-posthog': ['project_id', 'historical_migration', 'geoip_disable'],
  'segment-pushwoosh': ['pushwooshAppCode'],
};
const OF_THE_PACK = ['presets', 'actions'];

describe.each(CONNECTOR_KINDS.map(({ description }) => [description.type, description] as const))(
  'settings of %s',
  (type, description) => {
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
  },
);
