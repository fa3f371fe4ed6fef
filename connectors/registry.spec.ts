import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { exposuresOf, objectIn } from '@tributary/core';
import { describe, expect, it, test, vi } from 'vitest';
import manifest from './package.json' with { type: 'json' };
import { OWN_KINDS } from './registry.ts';
import { segmentKinds } from './segment/connector.ts';
import { memoizeByObject } from './settings.ts';
import { WAREHOUSE_KINDS } from './warehouses/kinds.ts';

const INDEX = fileURLToPath(new URL('./index.ts', import.meta.url));
/** Dependencies that every process loads; all others are drivers. */
const LOADED_BY_ALL = ['@tributary/core', 'ajv', 'ipaddr.js', 'undici'];
const DRIVERS = Object.keys(manifest.dependencies).filter((name) => !LOADED_BY_ALL.includes(name));
const LOADED = `import(process.argv[1]).then(() => console.log(JSON.stringify(Object.keys(require('node:module')._cache))))`;

test('no driver is loaded before the first delivery that needs it', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', LOADED, INDEX]);
  const loaded: string[] = JSON.parse(stdout);
  expect(loaded.some((path) => path.includes('/undici/'))).toBe(true);
  expect(DRIVERS.filter((name) => loaded.some((path) => path.includes(`/node_modules/${name}/`)))).toEqual(
    [],
  );
});

describe.each(
  [...OWN_KINDS, ...segmentKinds(), ...WAREHOUSE_KINDS].map(
    ({ description }) => [description.type, description] as const,
  ),
)('settings of %s', (_type, description) => {
  const { settingsSchema, secrets, harmless, safestFirst = {} } = description;
  const properties = objectIn(settingsSchema.properties);

  it('that are harmless are no secrets, and those of which values are safer are not harmless', () => {
    for (const name of Object.keys(safestFirst)) expect(harmless).not.toContain(name);
    for (const name of secrets) expect(harmless).not.toContain(name);
  });

  it('that protect secrets declare all their values in order of safety', () => {
    for (const [setting, values] of Object.entries(safestFirst)) {
      const schema = objectIn(properties[setting]);
      const all = schema.type === 'boolean' ? [true, false] : schema.enum;
      expect([...values].sort()).toEqual(Array.isArray(all) ? [...all].sort() : []);
      // The default is the safest value, and applies where none is given.
      expect(schema.default).toBe(values[0]);
      for (const value of values.slice(1))
        expect(exposuresOf({}, { [setting]: value }, description)).toEqual([{ setting, change: 'weaker' }]);
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
