import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forgetDeletionsBefore, isTooOld } from './profile-store.ts';
import { write } from './world.fixture.ts';

const NOW = 10_000_000;
const RETENTION_MS = 1_000_000;

describe('data that was received longer ago than deletions are remembered', () => {
  it('is too old; data without a time counts as of now', () => {
    const at = (receivedAt?: number) =>
      isTooOld(write(['a:1'], receivedAt === undefined ? {} : { receivedAt }), NOW, RETENTION_MS);
    expect([at(NOW - RETENTION_MS - 1), at(NOW - RETENTION_MS), at()]).toEqual([true, false, false]);
  });

  it('is refused half a minute and more before a deletion that decides about it is forgotten, also by another clock', () => {
    const minute = fc.integer({ min: -30_000, max: 30_000 });
    fc.assert(
      fc.property(fc.nat(2 * RETENTION_MS), fc.nat(2 * RETENTION_MS), minute, (age, later, skew) => {
        const [receivedAt, deletedAt] = [NOW - age, NOW - age + later];
        const isForgotten = deletedAt < forgetDeletionsBefore(NOW + skew, RETENTION_MS);
        if (isForgotten) expect(isTooOld(write(['a:1'], { receivedAt }), NOW, RETENTION_MS)).toBe(true);
      }),
    );
  });
});
