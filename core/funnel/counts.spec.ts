import { describe, expect, it } from 'vitest';
import type { OutputRecord } from '../log/stage.ts';
import { HEADER } from '../log/topics.ts';
import { funnelLatencyBucket, MAX_FUNNEL_SAMPLES } from '../ports/counters.ts';
import { InvalidInput } from '../primitives/errors.ts';
import { BytesTally } from './bytes.ts';
import { countRecords, summedCountsIn, Tally } from './counts.ts';
import { type CountedEvent, countedEvent, type EventKind, eventKind, type StageNote } from './notes.ts';

const MINUTE_MS = 60_000;
const AT = Date.parse('2026-01-01T10:00:30.000Z');

type CountedFields = Partial<EventKind & CountedEvent>;

function counted({ messageId = 'm1', receivedAt = AT, ...kind }: CountedFields = {}): CountedEvent {
  return {
    messageId,
    receivedAt,
    kind: eventKind({
      workspaceId: 'w1',
      environment: 'production',
      source: 's1',
      key: 'k1',
      type: 'track',
      name: 'Paid',
      ...kind,
    }),
  };
}

function note(measures: string, changes: CountedFields = {}, rule = ''): StageNote {
  return { event: counted(changes), rule, destination: rule === '' ? '' : 'd1', measures };
}

function appended<Record extends object>(record: Record) {
  return { ...record, timestamp: AT };
}

function recordsOf(notes: readonly StageNote[]) {
  return countRecords([Tally.of(notes)]);
}

function increments(notes: readonly StageNote[]) {
  return summedCountsIn(recordsOf(notes).map(appended)).increments;
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
      ['Left', '', 0, 'received+accepted', 1],
      ['Paid', '', MINUTE_MS, 'received+accepted', 1],
      ['Paid', 'r1', 0, 'matched+passed+created', 1],
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
    const records = recordsOf(
      Array.from({ length: 2_000 }, (_, n) => note('received+accepted', { name: `n${n}` })),
    );
    expect(records.length).toBeGreaterThan(1);
    expect(Math.max(...records.map(({ value }) => value.length))).toBeLessThan(64 * 1024);
    expect(summedCountsIn(records.map(appended)).increments).toHaveLength(2_000);
  });

  it('of a later version are refused', () => {
    for (const value of ['{"v":2,"cells":[]}', '{"v":1,"cells":[["w"]]}'])
      expect(() => summedCountsIn([appended({ value, headers: {} })])).toThrow(InvalidInput);
  });

  it('cut names that are as long as an event', () => {
    const event = { type: 'track', event: 'x'.repeat(5_000), received_at: '2026-01-01T10:00:00.000Z' };
    expect(countedEvent(event as Parameters<typeof countedEvent>[0]).kind.name).toHaveLength(200);
  });
});

describe('the bytes of a commit', () => {
  const record = (workspace: string | undefined, value: string): OutputRecord => ({
    topic: 't',
    key: 'key',
    value,
    headers: workspace === undefined ? {} : { [HEADER.workspaceId]: workspace },
  });

  it('are summed by workspace, in UTF-8, with the counts that are written for it', () => {
    const bytes = new BytesTally();
    bytes.writtenRecords([
      record('w1', 'ab'),
      record('w2', 'é€'),
      record(undefined, 'xyz'),
      record('w1', 'c'),
    ]);
    const tally = Tally.of([note('received+accepted'), { scope: 'w1', received: 7, written: 0 }]);
    const records = countRecords([tally], bytes);
    const { bytes: found, increments: counts } = summedCountsIn(records.map(appended));
    const [cell] = (JSON.parse(records[0]?.value ?? '') as { cells: unknown[] }).cells;
    const header = HEADER.workspaceId.length + 2;
    const hour = AT - (AT % 3_600_000);
    expect(found).toEqual([
      { scope: 'w1', hour, received: 7, written: 2 * (3 + header) + 3 + JSON.stringify(cell).length },
      { scope: 'w2', hour, received: 0, written: 3 + header + 5 },
    ]);
    expect(counts).toHaveLength(1);
  });

  it('of many workspaces make no large record, and none where nothing was written', () => {
    const bytes = new BytesTally();
    for (let n = 0; n < 3_000; n++) bytes.written(`0192f0c1-7c7b-7d53-8a55-${n}`, n);
    const records = countRecords([], bytes);
    expect(Math.max(...records.map(({ value }) => value.length))).toBeLessThan(64 * 1024);
    expect(summedCountsIn(records.map(appended)).bytes).toHaveLength(3_000);
    expect(countRecords([], new BytesTally())).toEqual([]);
  });

  it('are of the hour in which the log appended them; records of earlier releases have none', () => {
    const bytes = new BytesTally();
    bytes.written('w1', 10);
    const [one] = countRecords([], bytes).map(appended);
    if (one === undefined) throw new Error('no record');
    const later = { ...one, timestamp: AT + 3_600_000 };
    const old = { ...one, value: '{"v":1,"cells":[]}' };
    expect(summedCountsIn([one, old, later, later]).bytes.map(({ written }) => written)).toEqual([10, 20]);
    const redriven = { ...later, headers: { [HEADER.appendedAt]: String(AT) } };
    expect(summedCountsIn([one, redriven]).bytes.map(({ written }) => written)).toEqual([20]);
    const malformed = { ...one, value: '{"v":1,"cells":[],"bytes":[["w"]]}' };
    expect(() => summedCountsIn([malformed])).toThrow(InvalidInput);
  });
});

describe('the sum of records of counts', () => {
  it('a workspace with a thousand rules held the stage for 0.2 s a second: each cell is added once, however many commits counted it', () => {
    const commits = Array.from({ length: 12 }, (_, commit) =>
      recordsOf(
        Array.from({ length: 40 }, (_, rule) =>
          note('matched+filtered/content', { messageId: `m${commit}` }, `r${rule}`),
        ),
      ),
    ).flat();
    const summed = summedCountsIn(commits.map(appended)).increments;
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
      ...recordsOf([made(1), made(50), note('accepted', { name: '' }), note('accepted', { name: 'a b' })]),
      ...recordsOf([
        made(50),
        note('accepted', { name: 'a', key: 'k1 b' }),
        note('accepted', { receivedAt: AT + MINUTE_MS }),
      ]),
    ];
    const summed = summedCountsIn(records.map(appended)).increments;
    expect(summed.reduce((sum, { count }) => sum + count, 0)).toBe(7);
    expect(summed).toHaveLength(5);
    expect(summed.find(({ rule }) => rule === 'r1')).toMatchObject({
      count: 3,
      latencies: { 0: 1, [funnelLatencyBucket(50)]: 2 },
    });
  });
});
