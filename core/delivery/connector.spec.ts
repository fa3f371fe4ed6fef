import fc from 'fast-check';
import { expect, it } from 'vitest';
import { exposuresOf } from './connector.ts';

const MECHANISMS = ['scram-sha-512', 'scram-sha-256', 'plain'];
const description = {
  secrets: ['password'],
  harmless: ['note'],
  safestFirst: { tls: [true, false], mechanism: MECHANISMS },
  settingsSchema: {
    properties: {
      host: { type: 'string' },
      ca: { type: 'string' },
      password: { type: 'string' },
      tls: { type: 'boolean', default: true },
      mechanism: { type: 'string', default: 'scram-sha-512' },
      note: { type: 'string' },
    },
  },
};
const exposed = (before: object, after: object) =>
  exposuresOf({ ...before }, { ...after }, description).map(({ setting, change }) => `${setting} ${change}`);

it.each([
  [{}, { mechanism: 'plain' }, ['mechanism weaker']],
  [{ mechanism: 'scram-sha-256' }, { mechanism: 'plain' }, ['mechanism weaker']],
  [{ mechanism: 'plain' }, { mechanism: 'scram-sha-256' }, []],
  [{ mechanism: 'plain' }, {}, []],
  [{ mechanism: 'plain' }, { mechanism: 'made up' }, ['mechanism another']],
  [{}, { tls: false }, ['tls weaker']],
  [{ tls: false }, {}, []],
  [{ host: 'a' }, { host: 'b', tls: false }, ['host another', 'tls weaker']],
  [{ host: 'a', ca: 'x' }, { host: 'a' }, ['ca another']],
  [{ host: 'a', note: 'x' }, { host: 'a', note: 'y' }, []],
])('%j to %j exposes %j', (before, after, expected) => {
  expect(exposed(before, after)).toEqual(expected);
});

const settings = fc.record(
  {
    host: fc.constantFrom('a', 'b'),
    ca: fc.constantFrom('x', 'y'),
    tls: fc.boolean(),
    mechanism: fc.constantFrom(...MECHANISMS, 'made up'),
    note: fc.string(),
  },
  { requiredKeys: [] },
);

it('no sequence of changes without an exposure has the result of one that exposes a secret', () => {
  fc.assert(
    fc.property(fc.array(settings, { minLength: 1, maxLength: 12 }), (changes) => {
      const [first = {}] = changes;
      // The settings the gateway would have stored. A change that exposes a secret is rejected, because
      // nothing is restated.
      const stored = changes.reduce(
        (current, next) => (exposed(current, next).length > 0 ? current : next),
        first,
      );
      expect(exposed(first, stored)).toEqual([]);
    }),
  );
});

it('a change or its reverse exposes a secret, unless neither affects secrets', () => {
  fc.assert(
    fc.property(settings, settings, (one, other) => {
      const either = [...exposed(one, other), ...exposed(other, one)];
      const same = ['host', 'ca', 'tls', 'mechanism'].every((name) => {
        const { default: usual } = Object(Reflect.get(description.settingsSchema.properties, name) ?? {});
        return (Reflect.get(one, name) ?? usual) === (Reflect.get(other, name) ?? usual);
      });
      expect(either.length === 0).toBe(same);
    }),
  );
});
