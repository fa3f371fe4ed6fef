import { expect, it } from 'vitest';
import { formatPosition, MAX_VALUE_BYTES } from '../log/event-log.ts';
import { TOPIC } from '../log/topics.ts';
import type { FunnelQuery } from '../ports/counters.ts';
import { acceptedSince, batchId, discardedEvents, discardsOfEvent, loadEveryMs } from './loads.ts';

it.each([
  [undefined, 300_000],
  ['10s', 10_000],
  ['90m', 5_400_000],
  ['24h', 86_400_000],
  ['1s', 10_000],
  ['9999m', 86_400_000],
  ['soon', 86_400_000],
])('load_every of %s is %d ms', (load_every, ms) => {
  expect(loadEveryMs(load_every === undefined ? {} : { load_every })).toBe(ms);
});

it('a batch has the same id for the same ranges, in any order, and another one for any others', () => {
  const range = (partition: number, to: number) => ({ topic: 'events.accepted', partition, from: 0, to });
  const id = batchId('d', 'live', 1, [range(0, 5), range(1, 7)]);
  expect(id).toMatch(/^[0-9a-f]{16}$/);
  expect(batchId('d', 'live', 1, [range(1, 7), range(0, 5)])).toBe(id);
  const others = [
    batchId('e', 'live', 1, [range(0, 5), range(1, 7)]),
    batchId('d', 'replay', 1, [range(0, 5), range(1, 7)]),
    batchId('d', 'live', 2, [range(0, 5), range(1, 7)]),
    batchId('d', 'live', 1, [range(0, 5), range(1, 8)]),
  ];
  expect(new Set([id, ...others]).size).toBe(5);
});

const HOUR_MS = 3_600_000;
const NOW = Date.parse('2026-03-01T10:30:30.000Z');

/** Each interval has 60 events. */
function counters() {
  const queries: FunnelQuery[] = [];
  const funnel = async (query: FunnelQuery) => {
    queries.push(query);
    const step = query.interval === 'minute' ? 60_000 : HOUR_MS;
    const starts = Array.from({ length: (query.to - query.from) / step }, (_, n) => query.from + n * step);
    return starts.map((start) => ({ group: {}, start, counts: { accepted: 60 }, latencies: {} }));
  };
  return { queries, funnel };
}

it.each([
  ['nothing was accepted in no time', 0, 0],
  ['of the current minute the part since', 15_000, 30],
  ['the current minute and a part of the one before', 45_000, 75],
  ['by the hour', 2 * HOUR_MS + 900_000, 165],
  ['a watermark ahead of this clock', -5_000, 0],
])('%s', async (_what, ago, expected) => {
  expect(await acceptedSince(counters(), { workspace_id: 'w' }, NOW - ago, NOW)).toBe(expected);
});

it('counts the only environment that a warehouse takes', async () => {
  const { queries, funnel } = counters();
  await acceptedSince({ funnel }, { workspace_id: 'w', environments: ['production'] }, NOW - 1_000, NOW);
  await acceptedSince(
    { funnel },
    { workspace_id: 'w', environments: ['production', 'development'] },
    NOW - 1,
    NOW,
  );
  expect(queries.map(({ filter }) => filter)).toEqual([{ environment: 'production' }, {}]);
});

const at = (partition: number, offset: number, index = 0) => ({
  topic: TOPIC.accepted,
  partition,
  offset,
  index,
});
const total = { table: 'orders', column: 'total', reason: 'the column is of type bigint' };
const discard = (position: ReturnType<typeof at>, place = total) => ({
  ...place,
  position: formatPosition(position),
});

it('finds the discards of each event of a load by its position', () => {
  const whole = { table: '', column: '', reason: 'threw: no total' };
  const discarded = discardedEvents([
    discard(at(0, 12)),
    discard(at(0, 12), whole),
    discard(at(0, 120, 1)),
    discard(at(1, 13)),
    { ...total, position: `${TOPIC.profileChanges}/0/5/0` },
  ]);
  expect(discarded.isComplete).toBe(true);
  expect(discardsOfEvent(discarded, at(0, 12))).toEqual([total, whole]);
  expect(discardsOfEvent(discarded, at(0, 120, 1))).toEqual([total]);
  for (const other of [at(0, 120), at(0, 1), at(0, 2), at(0, 20, 1), at(1, 12), at(2, 12)])
    expect(discardsOfEvent(discarded, other)).toEqual([]);
});

it('keeps no half of a character where it cuts a reason', () => {
  const reason = `${'x'.repeat(299)}😀`;
  const [group] = discardedEvents([discard(at(0, 1), { ...total, reason })]).groups;
  expect(group?.reason.isWellFormed()).toBe(true);
});

it('does not know what a record has no room for, or that was made again from the ledger', () => {
  const many = Array.from({ length: 20_001 }, (_, n) => discard(at(0, 9_000_000_000_000 + n)));
  const discarded = discardedEvents(many);
  expect(discardsOfEvent(discarded, at(0, 9_000_000_000_000))).toEqual([total]);
  expect(discardsOfEvent(discarded, at(0, 9_000_000_020_000))).toBeUndefined();
  expect(JSON.stringify(discarded).length).toBeLessThan(MAX_VALUE_BYTES / 2);
  const reasons = Array.from({ length: 200 }, (_, n) => discard(at(0, n), { ...total, reason: `row ${n}` }));
  expect(discardedEvents(reasons)).toMatchObject({ isComplete: false, groups: { length: 100 } });
  expect(discardsOfEvent(undefined, at(0, 1))).toBeUndefined();
});
