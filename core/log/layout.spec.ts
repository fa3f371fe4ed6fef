import { describe, expect, it } from 'vitest';
import {
  ancestorsOf,
  boundAt,
  formatBounds,
  growthRefusal,
  isCareful,
  isPast,
  parseBounds,
  partitionsOfKey,
} from './layout.ts';
import { partitionOf } from './record-layout.ts';

const NOW = Date.parse('2026-11-26T12:00:00.000Z');
const ago = (ms: number) => new Date(NOW - ms).toISOString();
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const FIRST = { layout: { partitions: 4, earlier: [] }, learnedAtMs: 0 };
/** Adopted so long ago, and learned then or later. */
const layoutSince = (ms: number, learnedMs = ms) => ({
  layout: { partitions: 12, earlier: [4], since: ago(ms) },
  learnedAtMs: NOW - learnedMs,
});

describe('a growth', () => {
  it('is refused in one line where the order of keys would be lost', () => {
    const refusal = (from: number, to: number) => growthRefusal({ name: 'events.accepted' }, from, to);
    expect(refusal(4, 12)).toBeUndefined();
    expect(refusal(4, 4)).toBeUndefined();
    expect(refusal(4, 10)).toBe(
      'events.accepted has 4 partitions: only multiples keep the order of its keys, e.g. 12',
    );
    expect(refusal(12, 4)).toBe('events.accepted has 12 partitions: they can become more and never fewer');
    expect(refusal(4, 4_000)).toBe('events.accepted can have 1 to 1024 partitions');
    expect(growthRefusal({ name: 'catalog', fixed: true }, 1, 2)).toBe('catalog always has one partition');
  });

  it('moves a key from one of its ancestors, or not at all', () => {
    for (let i = 0; i < 500; i++) {
      const key = `workspace:${i}`;
      const [now, ...before] = partitionsOfKey(key, { partitions: 24, earlier: [4, 12] });
      expect(now).toBe(partitionOf(key, 24));
      expect(new Set([now, ...before])).toEqual(
        new Set([24, 12, 4].map((partitions) => partitionOf(key, partitions))),
      );
    }
    expect(ancestorsOf(3, [4, 12])).toEqual([]);
    expect(ancestorsOf(7, [4, 12])).toEqual([3]);
    expect(ancestorsOf(23, [4, 12])).toEqual([3, 11]);
  });
});

describe('bounds', () => {
  it('are read back from their header, and no other text is', () => {
    const bounds = new Map([
      [3, 1_200],
      [11, 0],
    ]);
    expect(parseBounds(formatBounds(bounds))).toEqual(bounds);
    for (const text of ['', '3', '3:', '3:x', '3:1,', '-1:2']) expect(parseBounds(text)).toBeUndefined();
  });

  it('are past once every ancestor is', () => {
    const bounds = new Map([
      [3, 10],
      [11, 5],
    ]);
    expect(isPast(bounds, new Map([[3, 10]]))).toBe(false);
    expect(isPast(bounds, new Map([...bounds]))).toBe(true);
  });

  it('of a writer that starts later lie where all writers had settled', () => {
    const at = (ms: number, writer: 'owner' | 'other', retentionMs: number | 'forever' = 24 * HOUR_MS) =>
      boundAt(layoutSince(ms), { nowMs: NOW, retentionMs, writer });
    expect(at(MINUTE_MS, 'other')).toBe('end');
    expect(at(3 * MINUTE_MS, 'other')).toEqual({ appendedAfterMs: NOW - MINUTE_MS });
    expect(at(3 * MINUTE_MS, 'owner')).toBe('end');
    expect(at(2 * HOUR_MS, 'owner')).toEqual({ appendedAfterMs: NOW - HOUR_MS });
    expect(at(48 * HOUR_MS, 'owner')).toBeUndefined();
    expect(at(48 * HOUR_MS, 'owner', 'forever')).toEqual({ appendedAfterMs: NOW - 47 * HOUR_MS });
    expect(boundAt(FIRST, { nowMs: NOW, retentionMs: 1, writer: 'other' })).toBeUndefined();
  });
});

describe('appends are careful', () => {
  it('while a growth is announced, and for two minutes after its adoption', () => {
    const announced = { layout: { partitions: 4, earlier: [], announced: 12 }, learnedAtMs: 0 };
    expect(isCareful(announced, NOW)).toBe(true);
    expect(isCareful(layoutSince(MINUTE_MS), NOW)).toBe(true);
    expect(isCareful(layoutSince(3 * MINUTE_MS), NOW)).toBe(false);
    expect(isCareful(FIRST, NOW)).toBe(false);
  });

  it('after they have seen it, where the clock of the command was behind', () => {
    const learned = (ms: number) => layoutSince(30 * MINUTE_MS, ms);
    expect(isCareful(learned(MINUTE_MS), NOW)).toBe(true);
    expect(isCareful(learned(3 * MINUTE_MS), NOW)).toBe(false);
    const query = { nowMs: NOW, retentionMs: HOUR_MS, writer: 'other' } as const;
    expect(boundAt(learned(3 * MINUTE_MS), query)).toEqual({ appendedAfterMs: NOW - MINUTE_MS });
  });

  it('not in a process that starts long after', () => {
    expect(isCareful(layoutSince(2 * HOUR_MS, 1_000), NOW)).toBe(false);
  });
});
