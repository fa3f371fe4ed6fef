import { type LedgerRow, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { continuation, type PartitionBounds } from './lanes.ts';

const bounds = (fields: Partial<PartitionBounds>): PartitionBounds => ({
  topic: TOPIC.accepted,
  partition: 0,
  first: 0,
  start: 10,
  end: 100,
  ...fields,
});
const row = (to: number, lane = 'live'): LedgerRow => ({
  lane,
  seq: 1,
  batch: 'b',
  ranges: [{ topic: TOPIC.accepted, partition: 0, from: 0, to }],
  rows: {},
  loadedAt: '2026-01-01T00:00:00.000Z',
});

describe('a lane', () => {
  it.each<[string, Partial<PartitionBounds>, LedgerRow | undefined, readonly [from: number, to: number]]>([
    ['begins at its start', {}, undefined, [10, 100]],
    ['goes on where the newest row ends', {}, row(40), [40, 100]],
    ['begins at the start of a partition that was added', { partition: 1, start: 3 }, row(40), [3, 100]],
    ['waits at the end', {}, row(100), [100, 100]],
    ['goes on behind what the log dropped', { first: 60 }, row(40), [60, 100]],
    ['has nothing to do behind its end, although the log dropped that', { first: 120 }, row(100), [100, 100]],
    ['is done where its range ends before the newest row', { end: 90 }, row(95, 'replay'), [95, 95]],
    ['reads a log again that ends before the ledger', { first: 5, end: 30 }, row(40), [5, 30]],
  ])('%s', (_text, fields, newest, [from, to]) => {
    expect(continuation([bounds(fields)], newest).ranges).toMatchObject([{ from, to }]);
  });

  it('names what was dropped before it was loaded, and a log that was replaced', () => {
    const { missed } = continuation([bounds({ first: 60 })], row(40));
    expect(missed).toMatchObject([{ from: 40, to: 60 }]);
    const none = continuation([bounds({ first: 60 })], row(60));
    expect([none.missed, none.replaced]).toEqual([[], []]);
    expect(continuation([bounds({ end: 30 })], row(40)).replaced).toMatchObject([{ from: 30, to: 40 }]);
  });
});
