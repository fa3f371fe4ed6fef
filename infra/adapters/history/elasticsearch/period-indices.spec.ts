import { describe, expect, it } from 'vitest';
import { isExpired, isLeased, LEASE_MS, periodDaysFor, periodDaysOf, periodOf } from './period-indices.ts';

const DAY_MS = 86_400_000;
const BASE = 'tributary-x.history';

describe('a period', () => {
  it('is a day, or longer when the retention is long', () => {
    expect(periodDaysFor(3_600_000)).toBe(1);
    expect(periodDaysFor(7 * DAY_MS)).toBe(1);
    expect(periodDaysFor(60 * DAY_MS)).toBe(1);
    expect(periodDaysFor(3_650 * DAY_MS)).toBe(61);
  });

  it('begins and ends at midnight, also before 1970', () => {
    const day = Date.parse('2026-11-22T00:00:00Z');
    expect(periodOf(day, 1, BASE)).toBe(`${BASE}-1d-2026.11.22`);
    expect(periodOf(day + DAY_MS - 1, 1, BASE)).toBe(`${BASE}-1d-2026.11.22`);
    expect(periodOf(day + DAY_MS, 1, BASE)).toBe(`${BASE}-1d-2026.11.23`);
    expect(periodOf(-1, 1, BASE)).toBe(`${BASE}-1d-1969.12.31`);
    expect(periodOf(0, 10, BASE)).toBe(periodOf(10 * DAY_MS - 1, 10, BASE));
  });

  it('keeps the length in its name', () => {
    expect(periodDaysOf(`${periodOf(0, 61, BASE)}-ab12cd34`, BASE)).toBe(61);
    expect(periodDaysOf('tributary-y.history-1d-2026.11.22-ab12cd34', BASE)).toBeUndefined();
    expect(periodDaysOf(`${BASE}-something`, BASE)).toBeUndefined();
  });

  it('expires after the last put that its marker allows', () => {
    const marker = { touched_at: 1_000, condemned: false };
    const last = 1_000 + LEASE_MS + DAY_MS;
    expect(isExpired(marker, last, DAY_MS)).toBe(false);
    expect(isExpired(marker, last + 2 * LEASE_MS, DAY_MS)).toBe(true);
  });

  it('is open to puts for an hour after the marker was written, and not after the clock was set back', () => {
    expect(isLeased(undefined, 5)).toBe(false);
    expect(isLeased(5, 5)).toBe(true);
    expect(isLeased(5, 4 + LEASE_MS)).toBe(true);
    expect(isLeased(5, 5 + LEASE_MS)).toBe(false);
    expect(isLeased(5, 4)).toBe(false);
  });
});
