import fc from 'fast-check';
import { v5, validate, version } from 'uuid';
import { describe, expect, it } from 'vitest';
import { createUuidV7, deliveryId, isUuid, nameId, newId, timeOfId } from './ids.ts';

it('an id of version 7 contains its time of creation; no other text does', () => {
  const before = Date.now();
  const at = timeOfId(newId()) ?? 0;
  expect(at).toBeGreaterThanOrEqual(before - 1);
  expect(at).toBeLessThanOrEqual(Date.now() + 1_000);
  for (const other of [nameId('a'), 'order-1', '', '00000000-0000-0000-0000-000000000000'])
    expect(timeOfId(other)).toBeUndefined();
});

it.each([
  [[], '447ee173-07d6-56d8-84d0-5d75e3fb7b06'],
  [['a'], 'f623243c-b508-5d3f-8ed1-c8f7b53cb180'],
  [['a', 1], 'f229f3d7-7edc-50a1-9d0e-b1601603795d'],
  [['rule', 'production:m:0'], '6cd2b135-1d76-5382-9b93-125734991f38'],
  [['é\u{1f600}', ''], '11a48e48-925a-5b0e-a5f2-5b7545bda98b'],
  [Array.from({ length: 100 }, (_, n) => `d${n}`), '39238d50-1a71-5b18-97eb-be545d4e2a4d'],
])('the id of a name stays the same over releases: %j', (parts, id) => {
  expect(nameId(...parts)).toBe(id);
});

it('the id of a name is the UUID of version 5, and half of a surrogate pair has none', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme' })), (parts) => {
      const id = nameId(...parts);
      expect(id).toBe(v5(parts.join('\u0000'), '5f1c1b0e-8a57-5c0e-9d1e-7a2f6d1b4c3d'));
      expect(isUuid(id)).toBe(true);
    }),
  );
  expect(() => nameId('a\ud800')).toThrow(URIError);
});

it('a delivery has one id, that of each replay another', () => {
  const event = { environment: 'production', message_id: 'm' };
  const ids = [
    deliveryId('r', event, 0),
    deliveryId('r', event, 1),
    deliveryId('s', event, 0),
    deliveryId('r', event, 0, 'replay-1'),
    deliveryId('r', event, 0, 'replay-2'),
  ];
  expect(new Set(ids).size).toBe(ids.length);
  expect(deliveryId('r', event, 0)).toBe(nameId('r', 'production:m:0'));
});

describe('createUuidV7', () => {
  it('makes valid ids of version 7 that carry the time', () => {
    const id = createUuidV7(() => Date.UTC(2026, 0, 2))();
    expect(validate(id) && version(id)).toBe(7);
    expect(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)).toBe(Date.UTC(2026, 0, 2));
  });

  it('increases strictly, also when the clock stands still or goes back', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20), { minLength: 2, maxLength: 50 }), (times) => {
        const clock = times.values();
        const make = createUuidV7(() => clock.next().value ?? 0);
        const ids = times.map(() => make());
        expect(ids).toEqual([...new Set(ids)].sort());
      }),
    );
  });

  it('continues past 4,096 ids in one millisecond', () => {
    const make = createUuidV7(() => 1_000);
    const ids = Array.from({ length: 10_000 }, make);
    expect(ids).toEqual([...new Set(ids)].sort());
  });
});
