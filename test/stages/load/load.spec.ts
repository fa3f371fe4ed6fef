import {
  type CanonicalEvent,
  eventKey,
  HEADER,
  historyEntryOfReplay,
  type LoadRecord,
  type LogEntry,
  nameId,
  type ProfileChangeValue,
  type ReplayStep,
  type Rule,
  type StorageBudgets,
  TOPIC,
  Unavailable,
  type Warehouse,
} from '@tributary/core';
import { createLoads } from '@tributary/processors';
import { describe, expect, it, onTestFinished } from 'vitest';
import { event, setUp, until } from '../harness.ts';
import { WORKSPACE } from '../memory-catalog.ts';
import { openLog, runOn } from '../on-log.ts';
import { MemoryWarehouse } from './memory-warehouse.ts';

const WAREHOUSE = nameId('warehouse');
const OTHER_WORKSPACE = '00000000-0000-4000-8000-00000000000f';

interface Setup {
  readonly rule?: Partial<Rule>;
  readonly budgets?: Pick<StorageBudgets, 'verdictOf' | 'add'>;
}

async function setUpLoading({ rule, budgets }: Setup = {}) {
  const log = await openLog();
  const set = setUp({}, { log });
  const { catalog, time } = set;
  const warehouse = new MemoryWarehouse();
  catalog.addDestination(WAREHOUSE, {
    type: 'warehouse-memory',
    warehouse: true,
    settings: { load_every: '1m' },
  });
  if (rule !== undefined) {
    catalog.addTransformation('t1');
    catalog.addRule('r1', WAREHOUSE, rule);
  }
  await runOn(log, set.stages, ['history']);
  let sent = 0;
  const accept = async (...events: readonly CanonicalEvent[]) => {
    sent += events.length;
    const entries = events.map((one) => ({
      key: eventKey(one),
      value: JSON.stringify(one),
      headers: {
        [HEADER.catalogPosition]: String(catalog.position),
        [HEADER.messageId]: one.message_id,
        [HEADER.workspaceId]: one.workspace_id,
        [HEADER.environment]: one.environment,
      },
    }));
    await log.append(TOPIC.accepted, entries);
  };
  /** The loaders of a process. */
  const start = (own: Warehouse = warehouse, ownLog = log) => {
    const connectors = { ...set.dependencies.connectors, warehouse: () => own };
    const loads = createLoads({
      ...set.dependencies,
      log: ownLog,
      connectors,
      catalogCharacters: 1_000_000,
      ...(budgets && { budgets }),
    });
    onTestFinished(() => loads.close());
    loads.begin(() => [{ topic: TOPIC.loads, partition: 0 }]);
    return loads;
  };
  const read = async (topic: string): Promise<readonly LogEntry[]> => (await log.read(topic, 0, 0)).entries;
  const records = async () => (await read(TOPIC.loads)).map(({ value }) => JSON.parse(value) as LoadRecord);
  const loaded = async (count: number, status: LoadRecord['kind'] = 'loaded') => {
    await until(async () => (await records()).filter(({ kind }) => kind === status).length >= count);
    return (await records()).filter(({ kind }) => kind === status);
  };
  /** Waits until history has as many loads. */
  const recorded = async (count: number) =>
    until(async () => {
      const query = { kind: 'load', workspaceId: WORKSPACE, limit: 100 } as const;
      return (await set.history.list(query)).entries.length >= count;
    });
  const ids = (table = 'tracks') => warehouse.rowsOf(table).map(({ id }) => id);
  return {
    ...set,
    log,
    time,
    warehouse,
    accept,
    start,
    read,
    records,
    loaded,
    recorded,
    ids,
    sent: () => sent,
  };
}

const orders = (from: number, to: number, fields: Partial<CanonicalEvent> = {}) =>
  Array.from({ length: to - from }, (_, n) => event(`m${from + n}`, fields));

describe('a loader', () => {
  it('loads each event of its workspace once, and says so', async () => {
    const { accept, start, loaded, ids, warehouse, catalog } = await setUpLoading();
    await accept(...orders(0, 10), event('other', { workspace_id: OTHER_WORKSPACE }));
    const loads = start();
    const [first] = await loaded(1);
    await accept(...orders(10, 15, { properties: { total: 10.5 } }));
    loads.request(WAREHOUSE);
    const [, second] = await loaded(2);
    expect(ids().sort()).toEqual(
      orders(0, 15)
        .map(({ message_id }) => message_id)
        .sort(),
    );
    expect(ids('order_placed')).toHaveLength(15);
    expect(first).toMatchObject({
      lane: 'live',
      seq: 1,
      rows: { tracks: 10, order_placed: 10 },
      discards: {},
    });
    expect(second).toMatchObject({
      seq: 2,
      rows: { tracks: 5 },
      totals: { tracks: 15 },
      changes: [{ table: 'order_placed', column: 'total', from: 'bigint', to: 'numeric' }],
    });
    expect(second?.ranges.map(({ from }) => from)).toEqual(first?.ranges.map(({ to }) => to));
    expect(warehouse.ledger.map(({ batch }) => batch)).toEqual([first?.id, second?.id]);
    const tables = [...catalog.state.listing('warehouse_table', WORKSPACE, WAREHOUSE).newestFirst()];
    const table = tables.find(({ name }) => name === 'order_placed');
    expect(table?.columns.total).toMatchObject({ type: 'numeric', path: 'properties.total' });
  });

  it('says until when events are loaded: until its look where it reached the end, else until its last record', async () => {
    const { accept, start, loaded, warehouse, time, log, read } = await setUpLoading();
    const { limits } = warehouse;
    Object.assign(warehouse, { limits: { ...limits, batchBytes: 1 } });
    // The log has the clock of the machine; the one of the loader is set ahead of it.
    time.pass(Date.now() - time.now + 60_000);
    await accept(...orders(0, 1));
    await accept(...orders(1, 2));
    const [{ timestamp: firstAt = 0 } = {}] = await read(TOPIC.accepted);
    const loads = start();
    const [first, second] = await loaded(2);
    expect(first?.until).toBe(new Date(firstAt).toISOString());
    expect(second?.until).toBe(second?.began);
    expect(loads.health()[0]?.loaded_until).toBe(Date.parse(second?.until ?? ''));
    // Of another workspace: nothing is loaded, but it is read.
    time.pass(120_000);
    await log.append(TOPIC.accepted, [
      { key: 'k', value: '{}', headers: { [HEADER.workspaceId]: OTHER_WORKSPACE } },
    ]);
    await until(() => (loads.health()[0]?.loaded_until ?? 0) > Date.parse(second?.until ?? ''));
    expect(await loaded(2)).toHaveLength(2);
  });

  it('reads the ledger after a commit without an answer: nothing is loaded twice, and the load is recorded', async () => {
    const { accept, start, loaded, ids, warehouse } = await setUpLoading();
    await accept(...orders(0, 3));
    warehouse.afterCommit = () => {
      warehouse.afterCommit = () => {};
      throw new Unavailable('the connection was lost');
    };
    const loads = start();
    await loaded(1, 'failed');
    await accept(...orders(3, 5));
    loads.request(WAREHOUSE);
    const [lost, next] = await loaded(2);
    expect(ids()).toHaveLength(5);
    expect(lost).toMatchObject({ seq: 1, began: null, rows: { tracks: 3 } });
    expect(next).toMatchObject({ seq: 2, rows: { tracks: 2 } });
  });

  it('beside another one loads each batch once', async () => {
    const { accept, start, ids, warehouse, loaded } = await setUpLoading();
    const both = [start(), start()];
    for (let n = 0; n < 10; n++) {
      await accept(...orders(n * 5, n * 5 + 5));
      for (const loads of both) loads.request(WAREHOUSE);
      await until(() => ids().length === n * 5 + 5);
    }
    const seqs = warehouse.ledger.map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.map((_, n) => n + 1));
    await loaded(seqs.length);
    expect(
      warehouse.batches.flatMap(({ inserts }) => inserts.map(({ count }) => count)).length,
    ).toBeGreaterThan(0);
  });

  it('waits while the warehouse is down, tells each reason once, and catches up', async () => {
    const { accept, start, loaded, records, ids, warehouse, time } = await setUpLoading();
    let reason = 'no route to the host';
    let attempts = 0;
    warehouse.before = () => {
      attempts += 1;
      throw new Unavailable(reason);
    };
    await accept(...orders(0, 3));
    const loads = start();
    await loaded(1, 'failed');
    for (const next of ['no route to the host', 'no route to the host', 'the disk is full']) {
      reason = next;
      const before = attempts;
      loads.request(WAREHOUSE);
      await until(() => attempts > before);
    }
    await loaded(2, 'failed');
    expect((await records()).map(({ note, code }) => [note, code])).toEqual([
      ['no route to the host', 'unavailable'],
      ['the disk is full', 'unavailable'],
    ]);
    expect(loads.health()).toMatchObject([{ destination_id: WAREHOUSE, circuit: 'open', delivered: 0 }]);
    time.pass(10 * 60_000);
    expect(loads.health()[0]?.oldest_waiting_at).not.toBeNull();
    warehouse.before = () => {};
    loads.request(WAREHOUSE);
    await loaded(1);
    expect(ids()).toHaveLength(3);
    await until(() => loads.health()[0]?.circuit === 'closed');
    expect(loads.health()).toMatchObject([{ oldest_waiting_at: null }]);
  });

  it('report 21: goes on after one failure of whatever it asks of the log, and is late until then', async () => {
    const { accept, start, ids, log, time, loaded } = await setUpLoading();
    await accept(...orders(0, 3));
    const failing = new Set(['first', 'offsetAt', 'end', 'read', 'append']);
    const flaky = new Proxy(log, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return (...args: readonly unknown[]) => {
          if (failing.delete(String(name))) throw new Error('the connection was killed');
          return Reflect.apply(value, target, args);
        };
      },
    });
    const loads = start(undefined, flaky);
    await until(() => !failing.has('first'));
    time.pass(2 * 60_000 + 1);
    expect(loads.health()[0]?.oldest_waiting_at).not.toBeNull();
    await until(() => {
      loads.request(WAREHOUSE);
      return failing.size === 0;
    });
    await loaded(1);
    expect(ids()).toHaveLength(3);
    await until(() => loads.health()[0]?.oldest_waiting_at === null);
  });

  it('waits with what it stores on this disk while the workspace is over a budget', async () => {
    let isOver = true;
    const over = { action: 'stop_output', budget: 'bytes_held', used: 2, limit: 1, retryAfterMs: 1 } as const;
    const budgets = { verdictOf: () => (isOver ? over : undefined), add: () => undefined };
    const { accept, start, loaded, ids, warehouse } = await setUpLoading({ budgets });
    warehouse.storesHere = true;
    await accept(...orders(0, 3));
    const loads = start();
    const [failure] = await loaded(1, 'failed');
    expect(failure).toMatchObject({
      code: 'unavailable',
      note: 'the workspace is over its budget bytes_held',
    });
    expect(ids()).toEqual([]);
    isOver = false;
    loads.request(WAREHOUSE);
    await loaded(1);
    expect(ids()).toHaveLength(3);
  });

  it('maintains the warehouse a piece after each load, and loads on where that fails', async () => {
    const { accept, start, loaded, ids, warehouse } = await setUpLoading();
    let pieces = 0;
    warehouse.before = (call) => {
      if (call !== 'maintain') return;
      pieces += 1;
      throw new Unavailable('the disk is full');
    };
    await accept(...orders(0, 3));
    const loads = start();
    await loaded(1);
    await until(() => pieces === 1);
    await accept(...orders(3, 5));
    loads.request(WAREHOUSE);
    await loaded(2);
    await until(() => pieces === 2);
    expect(ids()).toHaveLength(5);
    expect(loads.health()[0]?.circuit).toBe('closed');
  });

  it('goes on behind the loads in history when somebody dropped the ledger, and says so', async () => {
    const { accept, start, loaded, ids, warehouse, recorded } = await setUpLoading();
    await accept(...orders(0, 3));
    const loads = start();
    await loaded(1);
    await recorded(1);
    warehouse.ledger.length = 0;
    await accept(...orders(3, 5));
    loads.request(WAREHOUSE);
    const [, second] = await loaded(2);
    expect(second).toMatchObject({
      seq: 2,
      rows: { tracks: 2 },
      note: expect.stringContaining('the ledger had no row'),
    });
    expect(ids()).toHaveLength(5);
  });

  it('names the records that the log dropped before they were loaded, and goes on behind them', async () => {
    const { accept, start, loaded, ids, log } = await setUpLoading();
    await accept(...orders(0, 3));
    const loads = start();
    await loaded(1);
    await accept(...orders(3, 6));
    await log.dropBelow(TOPIC.accepted, 0, 5);
    loads.request(WAREHOUSE);
    const [missed] = await loaded(1, 'failed');
    expect(missed).toMatchObject({ code: 'missed', ranges: [{ topic: TOPIC.accepted, from: 3, to: 5 }] });
    await until(() => ids().length === 4);
  });

  it('keeps a record that is no event as a discard, and loads the others', async () => {
    const { accept, start, loaded, ids, log } = await setUpLoading();
    await accept(...orders(0, 1));
    const headers = { [HEADER.workspaceId]: WORKSPACE };
    await log.append(TOPIC.accepted, [{ key: 'k', value: '{"message_id": 1}', headers }]);
    await accept(...orders(1, 2));
    start();
    const [record] = await loaded(1);
    expect(ids()).toEqual(['m0', 'm1']);
    expect(record).toMatchObject({
      discards: { '': 1 },
      samples: [{ position: 'events.accepted/0/1/0', reason: 'no event: no catalog position' }],
    });
  });

  it('makes a table again that somebody dropped, and tells it once', async () => {
    const { accept, start, loaded, warehouse } = await setUpLoading();
    await accept(...orders(0, 2));
    const loads = start();
    await loaded(1);
    warehouse.tables.delete('order_placed');
    for (const n of [2, 3]) {
      await accept(...orders(n, n + 1));
      loads.request(WAREHOUSE);
      await loaded(n);
    }
    const [, second, third] = await loaded(3);
    expect(second?.note).toBe('the table order_placed was missing and is made again');
    expect(third?.note).toBeUndefined();
    expect(warehouse.rowsOf('order_placed')).toHaveLength(2);
  });
});

describe('rules of a warehouse', () => {
  it('decide which events it gets, with their transformation; what fails is a discard', async () => {
    const rule = { transformation_id: 't1', event_names: ['Order Placed'] };
    const { accept, start, loaded, ids, world } = await setUpLoading({ rule });
    world.transform = (_source, { event: text }) => {
      const given = JSON.parse(text) as CanonicalEvent;
      const failure = {
        ok: false,
        kind: 'threw',
        message: 'no total',
        logs: [],
        durationMs: 1,
        loadMs: 0,
      } as const;
      if (given.message_id === 'm0') return failure;
      const outputs = given.message_id === 'm1' ? [] : [text, text];
      return { ok: true, outputs, logs: [], durationMs: 1, loadMs: 0 };
    };
    await accept(
      ...orders(0, 3),
      event('page', { type: 'page', name: 'Order Placed' }),
      event('x', { event: 'X' }),
    );
    start();
    const [record] = await loaded(1);
    expect(ids()).toHaveLength(2);
    expect(ids()).toContain('m2');
    expect(record).toMatchObject({
      discards: { '': 1 },
      samples: [{ message_id: 'm0', reason: 'threw: no total' }],
    });
  });

  it('make no deliveries in route', async () => {
    const { run, counters, notes } = await setUpLoading({ rule: {} });
    const entry = {
      key: 'k',
      value: JSON.stringify(event('m1')),
      headers: { [HEADER.catalogPosition]: '0' },
      position: { topic: TOPIC.accepted, partition: 0, offset: 0, index: 0 },
      timestamp: 0,
    };
    expect(await run('route', [entry])).toEqual([]);
    expect(counters.batches).toEqual([]);
    expect(JSON.stringify(notes)).toContain('warehouse');
  });
});

describe('a replay for a rule of a warehouse', () => {
  it('is a backfill by the loader: rows that are there are left alone, and its steps say how far it is', async () => {
    const { accept, start, loaded, ids, warehouse, catalog, read, run, time } = await setUpLoading({
      rule: {},
    });
    await accept(...orders(0, 4));
    start();
    await loaded(1);
    warehouse.tables.get('tracks')?.rows.delete('m1');
    catalog.at = '2026-01-01T09:00:00.000Z';
    const now = Date.now();
    const id = nameId('replay');
    catalog.add('replay.created', id, {
      id,
      workspace_id: WORKSPACE,
      rule_id: 'r1',
      since: new Date(now - 3_600_000).toISOString(),
      until: new Date(now + 3_600_000).toISOString(),
      events_per_second: 100,
      status: 'active',
      created_by: 'a',
    });
    time.pass(2_000);
    const steps = async () => (await read(TOPIC.replays)).map(({ value }) => JSON.parse(value) as ReplayStep);
    await until(async () => (await steps()).some(({ status }) => status === 'finished'));
    const [, backfill] = await loaded(2);
    expect(backfill).toMatchObject({ lane: id, seq: 1, rows: { tracks: 1, order_placed: 0 } });
    expect(ids().sort()).toEqual(['m0', 'm1', 'm2', 'm3']);
    const [step] = await read(TOPIC.replays);
    if (step === undefined) throw new Error('no step');
    expect(await run('replay', [step])).toEqual([]);
    expect((await steps()).at(-1)).toMatchObject({ replay_id: id, events: 4, loaded_into: WAREHOUSE });
  });
});

it('a backfill whose rule was deleted ends, so that it counts as running no longer', async () => {
  const { start, catalog, history, read } = await setUpLoading({ rule: {} });
  const id = nameId('replay');
  const created_at = '2026-01-01T09:00:00.000Z';
  catalog.at = created_at;
  catalog.add('replay.created', id, {
    id,
    workspace_id: WORKSPACE,
    rule_id: 'r1',
    since: created_at,
    until: created_at,
    events_per_second: 100,
    status: 'active',
    created_by: 'a',
  });
  const step: ReplayStep = {
    replay_id: id,
    workspace_id: WORKSPACE,
    number: 3,
    status: 'running',
    cursors: [],
    looked_at: 7,
    events: 7,
    loaded_into: WAREHOUSE,
    created_at,
    at: created_at,
  };
  await history.put([historyEntryOfReplay(step)]);
  catalog.add('rule.deleted', 'r1', {});
  start();
  await until(async () => (await read(TOPIC.replays)).length > 0);
  const [ended] = await read(TOPIC.replays);
  expect(JSON.parse(ended?.value ?? '')).toMatchObject({
    replay_id: id,
    number: 4,
    status: 'failed',
    reason: 'the rule was deleted',
  });
});

it('changes of profiles of the organization and region become rows of users', async () => {
  const { start, loaded, warehouse, log, catalog } = await setUpLoading();
  const org = catalog.state.organizationByOrgId(1)?.org_id ?? 1;
  const record = (ucid: string, traits: object) => ({
    updated_ts: 2,
    created_ts: 1,
    profile: { traits },
    ids: {},
    mkt_preferences: {},
    consent: {},
    region: 'eu',
    ucid,
  });
  const change = (ucid: string, fields: Partial<ProfileChangeValue>) => ({
    key: ucid,
    value: JSON.stringify({
      kind: 'written',
      ucid,
      orgId: org,
      region: 'eu',
      version: 1,
      at: 1,
      linked: [],
      ...fields,
    }),
    headers: {},
  });
  await log.append(TOPIC.profileChanges, [
    change('u1', { record: record('u1', { plan: 'free' }) as never }),
    change('u2', { record: record('u2', { plan: 'pro' }) as never }),
    change('u3', { record: record('u3', {}) as never, region: 'us' }),
    change('u2', {
      kind: 'merged',
      ucid: 'u1',
      version: 2,
      linked: ['u2'],
      record: record('u1', { plan: 'pro' }) as never,
    }),
  ]);
  start();
  await loaded(1);
  expect(warehouse.rowsOf('users')).toMatchObject([{ ucid: 'u1', plan: 'pro' }]);
  expect(warehouse.batches[0]?.profiles?.gone).toMatchObject([{ ucid: 'u2', version: 2, isDeleted: false }]);
});
