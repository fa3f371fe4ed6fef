import fc from 'fast-check';
import { validate, version } from 'uuid';
import { describe, expect, it } from 'vitest';
import { createUuidV7 } from './uuid-v7.ts';

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

  it('goes on past 4,096 ids in one millisecond', () => {
    const make = createUuidV7(() => 1_000);
    const ids = Array.from({ length: 10_000 }, make);
    expect(ids).toEqual([...new Set(ids)].sort());
  });
});
