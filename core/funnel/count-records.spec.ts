import { describe, expect, it } from 'vitest';
import { funnelLatencyBucket, MAX_FUNNEL_SAMPLES } from '../ports/funnel-store.ts';
import { InvalidInput } from '../primitives/errors.ts';
import { countRecords, incrementsIn, summedIncrementsIn } from './count-records.ts';
import { type CountedEvent, countedEvent, type StageNote } from './notes.ts';

const MINUTE_MS = 60_000;
const AT = Date.parse('2026-01-01T10:00:30.000Z');

function counted(changes: Partial<CountedEvent> = {}): CountedEvent {
  return {
    messageId: 'm1',
    workspaceId: 'w1',
    environment: 'production',
    source: 's1',
    key: 'k1',
    type: 'track',
    name: 'Paid',
    receivedAt: AT,
    ...changes,
  };
}

function note(measures: string, changes: Partial<CountedEvent> = {}, rule = ''): StageNote {
  return { event: counted(changes), rule, destination: rule === '' ? '' : 'd1', measures };
}

function increments(notes: readonly StageNote[]) {
  return countRecords(notes).flatMap(incrementsIn);
}

describe('records of counts', () => {
  it('sum the notes of a commit by cell and measures', () => {
    const found = increments([
      note('received+accepted', { messageId: 'a' }),
      note('received+accepted', { messageId: 'b', receivedAt: AT + 20_000 }),
      note('received+duplicate', { messageId: 'c' }),
      note('received+accepted', { name: 'Left' }),
      note('received+accepted', { receivedAt: AT + MINUTE_MS }),
      note('matched+passed+created', {}, 'r1'),
    ]);
    expect(
      found.map(({ name, rule, minute, measures, count }) => [
        name,
        rule,
        minute - AT + 30_000,
        measures,
        count,
      ]),
    ).toEqual([
      ['Paid', '', 0, 'received+accepted', 2],
      ['Paid', '', 0, 'received+duplicate', 1],
      ['Paid', 'r1', 0, 'matched+passed+created', 1],
      ['Left', '', 0, 'received+accepted', 1],
      ['Paid', '', MINUTE_MS, 'received+accepted', 1],
    ]);
    expect(found[0]).toMatchObject({ source: 's1', key: 'k1', samples: ['a', 'b'] });
  });

  it('hold the newest ids of a cell, and a count of more than one', () => {
    const ids = Array.from({ length: 25 }, (_, n) => `m${n}`);
    const [found] = increments(
      ids.map((messageId) => ({ ...note('created', { messageId }, 'r1'), count: 2 })),
    );
    expect(found).toMatchObject({ count: 50, samples: ids.slice(-MAX_FUNNEL_SAMPLES) });
  });

  it('hold latencies by bucket', () => {
    const delivered = { ...note('delivered_first', {}, 'r1'), latencyMs: 1 };
    expect(increments([delivered, delivered])).toMatchObject([{ count: 2, latencies: { 0: 2 } }]);
  });

  it('sum the rules that leave events out over names, sources and keys', () => {
    const list = [
      { rule: 'r1', destination: 'd1', because: 'event_name' },
      { rule: 'r2', destination: 'd2', because: 'event_type' },
    ];
    const found = increments([
      { event: counted(), leftOut: list },
      { event: counted({ source: 's2', messageId: 'm2' }), leftOut: list },
      { event: counted({ name: 'Left', messageId: 'm3' }), leftOut: list.slice(0, 1) },
    ]);
    expect(found.map(({ rule, measures, count }) => [rule, measures, count])).toEqual([
      ['r1', 'filtered/event_name', 3],
      ['r2', 'filtered/event_type', 2],
    ]);
    expect(found[0]).not.toHaveProperty('name');
    expect(found[0]?.samples).toEqual(['m1', 'm2', 'm3']);
  });

  it('stay small, however much a commit counts', () => {
    const records = countRecords(
      Array.from({ length: 2_000 }, (_, n) => note('received+accepted', { name: `n${n}` })),
    );
    expect(records.length).toBeGreaterThan(1);
    expect(Math.max(...records.map(({ value }) => value.length))).toBeLessThan(64 * 1024);
    expect(records.flatMap(incrementsIn)).toHaveLength(2_000);
  });

  it('of a later version are refused', () => {
    expect(() => incrementsIn({ value: '{"v":2,"cells":[]}' })).toThrow(InvalidInput);
    expect(() => incrementsIn({ value: '{"v":1,"cells":[["w"]]}' })).toThrow(InvalidInput);
  });

  it('cut names that are as long as an event', () => {
    const event = { type: 'track', event: 'x'.repeat(5_000), received_at: '2026-01-01T10:00:00.000Z' };
    expect(countedEvent(event as Parameters<typeof countedEvent>[0]).name).toHaveLength(200);
  });
});

describe('the sum of records of counts', () => {
  it('a workspace with a thousand rules held the stage for 0.2 s a second: each cell is added once, however many commits counted it', () => {
    const commits = Array.from({ length: 12 }, (_, commit) =>
      countRecords(
        Array.from({ length: 40 }, (_, rule) =>
          note('matched+filtered/content', { messageId: `m${commit}` }, `r${rule}`),
        ),
      ),
    ).flat();
    const summed = summedIncrementsIn(commits);
    expect(summed).toHaveLength(40);
    expect(new Set(summed.map(({ count }) => count))).toEqual(new Set([12]));
    expect(summed[0]?.samples).toEqual(Array.from({ length: MAX_FUNNEL_SAMPLES }, (_, n) => `m${n + 2}`));
  });

  it('keeps cells, minutes, measures and names apart, and adds latencies', () => {
    const made = (latencyMs: number): StageNote => ({
      event: counted(),
      rule: 'r1',
      destination: 'd1',
      measures: 'delivered_first',
      latencyMs,
    });
    const records = [
      ...countRecords([made(1), made(50), note('accepted', { name: '' }), note('accepted', { name: 'a b' })]),
      ...countRecords([
        made(50),
        note('accepted', { name: 'a', key: 'k1 b' }),
        note('accepted', { receivedAt: AT + MINUTE_MS }),
      ]),
    ];
    const summed = summedIncrementsIn(records);
    expect(summed.reduce((sum, { count }) => sum + count, 0)).toBe(7);
    expect(summed).toHaveLength(5);
    expect(summed.find(({ rule }) => rule === 'r1')).toMatchObject({
      count: 3,
      latencies: { 0: 1, [funnelLatencyBucket(50)]: 2 },
    });
  });
});
