import {
  type CanonicalEvent,
  type CatalogView,
  type Destination,
  discardedEvents,
  type EventLog,
  formatPosition,
  type HistoryEntry,
  type HistoryQuery,
  historyEntryOfLoad,
  type LoadRecord,
  type LogEntry,
  type RuleTrace,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { traceLoads } from './load-traces.ts';
import { LogScan } from './log-scan.ts';

const ACCEPTED_AT = Date.parse('2026-03-01T10:00:00.000Z');
const after = (ms: number) => new Date(ACCEPTED_AT + ms).toISOString();
const at = (offset: number) => ({ topic: TOPIC.accepted, partition: 2, offset, index: 0 });
const DISCARD = { table: 'orders', column: 'total', reason: 'the column is of type bigint' };

const event: CanonicalEvent = {
  message_id: 'm',
  type: 'track',
  timestamp: after(0),
  received_at: after(0),
  environment: 'production',
  workspace_id: 'w',
};
const entry: LogEntry = { key: 'k', value: '', headers: {}, position: at(7), timestamp: ACCEPTED_AT };
const warehouse = {
  id: 'p',
  workspace_id: 'w',
  warehouse: true,
  enabled: true,
  settings: { load_every: '1m' },
  created_at: after(-60_000),
} as unknown as Destination;

const load = (from: number, to: number, fields: Partial<LoadRecord> = {}): LoadRecord => ({
  kind: 'loaded',
  id: `load ${from}`,
  destination_id: 'p',
  workspace_id: 'w',
  lane: 'live',
  seq: 1,
  ranges: [{ topic: TOPIC.accepted, partition: 2, from, to }],
  began: after(59_000),
  ended: after(60_000),
  rows: {},
  discards: {},
  totals: {},
  samples: [],
  changes: [],
  ...fields,
});

function traced(
  records: readonly LoadRecord[],
  { destination = {}, rules = [] }: { destination?: object; rules?: readonly Partial<RuleTrace>[] } = {},
) {
  const entries = records.flatMap((record) => historyEntryOfLoad(record) ?? []);
  const matches = ({ facets, at: time }: HistoryEntry, query: HistoryQuery) =>
    Object.entries(query.facets ?? {}).every(([name, value]) => facets[name] === value) &&
    time >= (query.since ?? 0) &&
    time < (query.until ?? Number.MAX_SAFE_INTEGER);
  const history = {
    list: async (query: HistoryQuery) => ({
      entries: entries
        .filter((one) => matches(one, query))
        .sort((a, b) => b.at - a.at)
        .slice(0, query.limit),
    }),
    get: async (_kind: string, _workspace: string, id: string) => entries.find((one) => one.id === id),
  };
  const state = { entities: () => [{ ...warehouse, ...destination }] } as unknown as CatalogView;
  const scan = new LogScan({} as EventLog, 1_000, () => 0);
  return traceLoads(scan, { history, state }, { entry, event }, rules as readonly RuleTrace[]);
}

describe('the trace of an event at a warehouse', () => {
  it('names the load that has it, with what of it is in discards', async () => {
    const discarded = discardedEvents([{ ...DISCARD, position: formatPosition(at(7)) }]);
    const records = [load(5, 8, { discarded }), load(8, 9, { ended: after(120_000) })];
    expect(await traced(records)).toEqual([
      {
        destination_id: 'p',
        status: 'loaded',
        load: { id: 'load 5', at: after(60_000) },
        discards: [DISCARD],
      },
    ]);
    expect(await traced([load(5, 8, { discarded: discardedEvents([]) })])).toMatchObject([{ discards: [] }]);
  });

  it('says that it waits, until a load has passed it: also one after a long outage', async () => {
    expect(await traced([])).toEqual([{ destination_id: 'p', status: 'waiting' }]);
    expect(await traced([load(5, 7)])).toEqual([{ destination_id: 'p', status: 'waiting' }]);
    // What failed or was missed has loaded nothing, and a backfill is another lane.
    const others = [load(5, 8, { kind: 'failed', code: 'missed' }), load(5, 8, { lane: 'r1' })];
    expect(await traced(others)).toEqual([{ destination_id: 'p', status: 'waiting' }]);
    expect(await traced([load(5, 8, { ended: after(86_400_000) })])).toEqual([
      { destination_id: 'p', status: 'loaded' },
    ]);
  });

  it('leaves out warehouses that do not take it, and knows those that were made later', async () => {
    expect(await traced([], { destination: { warehouse: undefined } })).toEqual([]);
    expect(await traced([], { destination: { environments: ['development'] } })).toEqual([]);
    const filtered: Partial<RuleTrace> = { destination_id: 'p', mismatch: { because: 'filter' } };
    expect(await traced([], { rules: [filtered] })).toEqual([]);
    for (const because of ['warehouse', 'filter_failed', 'destination_disabled'] as const)
      expect(
        await traced([], { rules: [filtered, { destination_id: 'p', mismatch: { because } }] }),
      ).toHaveLength(1);
    expect(await traced([], { destination: { created_at: after(1) } })).toEqual([
      { destination_id: 'p', status: 'before' },
    ]);
    expect(await traced([], { destination: { enabled: false } })).toMatchObject([{ status: 'waiting' }]);
  });

  it('is unknown while history does not answer, which the trace says', async () => {
    const scan = new LogScan({} as EventLog, 1_000, () => 0);
    const refuse = async () => Promise.reject(new Unavailable('no history'));
    const state = { entities: () => [warehouse] } as unknown as CatalogView;
    const sources = { history: { list: refuse, get: refuse }, state };
    expect(await traceLoads(scan, sources, { entry, event }, [])).toEqual([
      { destination_id: 'p', status: 'unknown' },
    ]);
    expect(scan.coverage().unanswered).toEqual(['history']);
  });
});
