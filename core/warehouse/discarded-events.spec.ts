import { expect, it } from 'vitest';
import { formatPosition, MAX_VALUE_BYTES } from '../log/event-log.ts';
import { TOPIC } from '../log/topics.ts';
import { discardedEvents, discardsOfEvent } from './loads.ts';

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
