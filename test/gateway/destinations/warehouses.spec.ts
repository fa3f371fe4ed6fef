import { join } from 'node:path';
import {
  type ConnectorCatalog,
  type ConnectorDescription,
  type Fact,
  type HealthReport,
  historyEntryOfLoad,
  type LoadRecord,
  TOPIC,
  type Warehouse,
  warehouseTableId,
} from '@tributary/core';
import { openSqliteHealthBoard } from '@tributary/infra';
import { afterAll, describe, expect, it } from 'vitest';
import { openTestGateway } from '../../helpers/gateway.ts';
import { MemoryWarehouse } from '../../stages/load/memory-warehouse.ts';

const TYPE = 'warehouse-memory';
const AT = '2026-03-01T09:30:00.000Z';
const description: ConnectorDescription = {
  type: TYPE,
  title: 'Memory',
  description: 'A warehouse of tests.',
  settingsSchema: {
    type: 'object',
    properties: { load_every: { type: 'string' }, schema: { type: 'string' } },
  },
  secrets: [],
  harmless: [],
  maxBatch: 1,
  hasTest: true,
  isWarehouse: true,
  named: { setting: 'schema', valueOf: (name) => name.toLowerCase() },
};

let warehouse: Warehouse = new MemoryWarehouse();
const connectors: ConnectorCatalog = {
  descriptions: new Map([[TYPE, description]]),
  prepare: async () => undefined,
  connector: () => undefined,
  warehouse: () => warehouse,
  async close() {},
};
const test = await openTestGateway({ dependencies: { connectors } });
afterAll(() => test.close());
const owner = await test.openWorkspace();
const create = (fields: object = {}) =>
  owner.ok<{ id: string; version: number }>('POST', './destinations', { name: 'W', type: TYPE, ...fields });

const record = (destinationId: string, fields: Partial<LoadRecord>): LoadRecord => ({
  kind: 'loaded',
  id: '0123456789abcdef',
  destination_id: destinationId,
  workspace_id: owner.workspaceId ?? '',
  lane: 'live',
  seq: 1,
  ranges: [{ topic: TOPIC.accepted, partition: 0, from: 0, to: 3 }],
  began: AT,
  ended: AT,
  rows: { tracks: 3 },
  discards: { orders: 1 },
  totals: { tracks: 3, orders: 3 },
  samples: [{ table: 'orders', column: 'total', message_id: 'm1', position: 'p', reason: 'too long' }],
  changes: [{ table: 'orders', column: 'total', from: null, to: 'bigint' }],
  ...fields,
});

async function put(...records: readonly LoadRecord[]): Promise<void> {
  const entries = records.flatMap((one) => historyEntryOfLoad(one) ?? []);
  await test.dependencies.history.put(entries);
}

describe('a request for a load', () => {
  it('is a record for the loader of the warehouse', async () => {
    const { id } = await create();
    const asked = await owner.call('POST', `./destinations/${id}/load`);
    expect(asked).toMatchObject({ status: 202, body: { destination_id: id } });
    const requests = await Promise.all(
      Array.from({ length: test.dependencies.log.topics.get(TOPIC.loads)?.partitions ?? 0 }, async (_, at) =>
        test.dependencies.log.read(TOPIC.loads, at, 0),
      ),
    );
    const values = requests.flatMap(({ entries }) => entries.map(({ value }) => JSON.parse(value)));
    expect(values).toEqual([
      {
        kind: 'requested',
        destination_id: id,
        workspace_id: owner.workspaceId,
        at: asked.body.requested_at,
      },
    ]);
  });

  it('is refused for a disabled or paused warehouse', async () => {
    const reasonOf = async (id: string) =>
      (await owner.call('POST', `./destinations/${id}/load`)).body.reason;
    expect(await reasonOf((await create({ enabled: false })).id)).toBe('disabled');
    expect(await reasonOf((await create({ paused: true })).id)).toBe('disabled');
  });
});

it('the schema has the tables by name, with the origin of each column and the rows that were loaded', async () => {
  const { id } = await create();
  const workspace_id = owner.workspaceId ?? '';
  for (const [name, columns] of Object.entries({
    tracks: { id: { type: 'text', origin: 'fixed', since: AT } },
    orders: { total: { type: 'numeric', origin: 'value', path: 'properties.total', since: AT } },
  } as const)) {
    const entity = warehouseTableId(id, name);
    const fact: Fact = {
      v: 1,
      type: 'warehouse_table.created',
      entity,
      data: { id: entity, workspace_id, destination_id: id, name, columns },
      by: 'stage:load',
      from: { address: '', request_id: '' },
      at: AT,
    };
    expect(await test.dependencies.catalog.propose(fact)).toMatchObject({ applied: true });
  }
  await put(record(id, {}));
  expect(await owner.ok('GET', `./warehouse/${id}/schema`)).toEqual({
    destination_id: id,
    tables: [
      {
        name: 'orders',
        columns: [{ name: 'total', type: 'numeric', origin: 'value', path: 'properties.total', since: AT }],
        rows: 3,
        created_at: AT,
        updated_at: AT,
      },
      {
        name: 'tracks',
        columns: [{ name: 'id', type: 'text', origin: 'fixed', path: null, since: AT }],
        rows: 3,
        created_at: AT,
        updated_at: AT,
      },
    ],
  });
});

describe('how far a warehouse is loaded', () => {
  const board = openSqliteHealthBoard({ folder: join(test.folder, 'health'), clock: Date.now });
  afterAll(() => board.close());
  const report = (destination_id: string, fields: Partial<HealthReport>) =>
    board.report([
      {
        workspace_id: owner.workspaceId ?? '',
        destination_id,
        process: 'p',
        at: Date.now(),
        window_ms: 60_000,
        delivered: 0,
        retry: 0,
        dead: 0,
        put_off: 0,
        latency: [],
        waiting: 0,
        under_way: 0,
        oldest_waiting_at: null,
        circuit: 'closed',
        circuit_since: 0,
        last_delivered_at: null,
        last_errors: [],
        ...fields,
      },
    ]);

  it('is told by its loader, and without one by the newest load, with the events that wait', async () => {
    const { id } = await create({ settings: { load_every: '10m' } });
    const read = () => owner.ok<{ last_load: object | null }>('GET', `./warehouse/${id}`);
    expect(await read()).toEqual({
      destination_id: id,
      load_every_seconds: 600,
      loaded_until: null,
      waiting_events: 0,
      last_load: null,
      failure: null,
    });
    const until = new Date(Date.now() - 90_000).toISOString();
    await put(
      record(id, { until }),
      record(id, { id: 'backfill', lane: 'r1', ended: '2026-03-01T10:00:00.000Z' }),
    );
    expect(await read()).toMatchObject({ loaded_until: until, last_load: { id: 'backfill' } });
    await report(id, { loaded_until: Date.now() - 30_000 });
    expect(Date.parse(String(Object(await read()).loaded_until))).toBeGreaterThan(Date.parse(until));
  });

  it('has the reason of a failure while loads fail, whatever was missed before or after', async () => {
    const { id } = await create();
    const failed = (at: string, code: string, note: string) =>
      record(id, { id: `${code} ${at}`, kind: 'failed', ended: at, code, note });
    await put(
      record(id, { id: 'a', ended: '2026-03-01T10:00:00.000Z' }),
      failed('2026-03-01T11:00:00.000Z', 'refused', 'no right to create tables'),
      failed('2026-03-01T12:00:00.000Z', 'missed', 'gone'),
    );
    const read = () => owner.ok('GET', `./warehouse/${id}`);
    // Nobody reports: the records tell.
    const failure = {
      code: 'refused',
      reason: 'no right to create tables',
      since: '2026-03-01T11:00:00.000Z',
    };
    expect(await read()).toMatchObject({ failure: { ...failure, last_failed_at: failure.since } });
    const at = Date.now();
    await report(id, { circuit: 'open', last_errors: [{ at, outcome: 'retry', reason: failure.reason }] });
    expect(await read()).toMatchObject({
      failure: { ...failure, last_failed_at: new Date(at).toISOString() },
    });
    await report(id, { circuit: 'closed' });
    expect(await read()).toMatchObject({ failure: null });
  });
});

it('the loads of a warehouse are listed newest first, by page, lane and status', async () => {
  const { id } = await create();
  const other = await create();
  await put(
    record(id, { id: 'a', ended: '2026-03-01T10:00:00.000Z' }),
    record(id, { id: 'b', ended: '2026-03-01T11:00:00.000Z', lane: 'r1', began: null }),
    record(id, {
      id: 'c',
      ended: '2026-03-01T12:00:00.000Z',
      kind: 'failed',
      code: 'refused',
      note: 'no right',
    }),
    record(other.id, { id: 'd' }),
  );
  const ids = async (query = '') =>
    (await owner.ok<{ id: string }[]>('GET', `./warehouse/${id}/loads${query}`)).map((load) => load.id);
  expect(await ids()).toEqual(['c', 'b', 'a']);
  expect(await ids('?lane=r1')).toEqual(['b']);
  expect(await ids('?status=failed')).toEqual(['c']);
  await put(record(id, { id: 'e', ended: '2026-03-01T09:00:00.000Z', discards: {}, samples: [] }));
  expect(await ids()).toEqual(['c', 'b', 'a', 'e']);
  expect(await ids('?discards=true')).toEqual(['c', 'b', 'a']);
  const page = await owner.call<{ id: string }[]>('GET', `./warehouse/${id}/loads?limit=2`);
  expect(page.body.map((load) => load.id)).toEqual(['c', 'b']);
  expect(page.headers.link).toContain('cursor=');
  const [failed, backfill] = await owner.ok<object[]>('GET', `./warehouse/${id}/loads`);
  expect(failed).toMatchObject({ status: 'failed', code: 'refused', reason: 'no right' });
  expect(backfill).toMatchObject({
    status: 'loaded',
    lane: 'r1',
    began_at: null,
    rows: { tracks: 3 },
    discards: { orders: 1 },
    samples: [{ message_id: 'm1', reason: 'too long' }],
    schema_changes: [{ table: 'orders', column: 'total', from: null, to: 'bigint' }],
  });
});

describe('a warehouse that was renamed loaded into another schema', () => {
  const stored = { schema: 'sales' };
  const read = (id: string) => owner.ok<Stored>('GET', `./destinations/${id}`);
  interface Stored {
    readonly settings: object;
    readonly version: number;
  }

  it('has the one of its creation, whatever is left out of a change, until another is stated', async () => {
    const created = await owner.ok<Stored & { id: string }>('POST', './destinations', {
      name: 'Sales',
      type: TYPE,
    });
    const { id } = created;
    expect(created.settings).toEqual(stored);
    await owner.ok('PATCH', `./destinations/${id}`, { name: 'Orders' });
    expect((await read(id)).settings).toEqual(stored);
    await owner.ok('PUT', `./destinations/${id}`, {
      name: 'Other',
      type: TYPE,
      settings: { load_every: '1h' },
    });
    expect((await read(id)).settings).toEqual({ ...stored, load_every: '1h' });
    await owner.ok('PATCH', `./destinations/${id}`, { settings: { schema: null } });
    expect((await read(id)).settings).toEqual({ ...stored, load_every: '1h' });
    await owner.ok('PATCH', `./destinations/${id}`, { settings: { schema: 'elsewhere' } });
    expect((await read(id)).settings).toMatchObject({ schema: 'elsewhere' });
  });

  it('keeps the one of its name until now where it was made before it was stored', async () => {
    const { id } = await create();
    const { version, ...older } = test.dependencies.catalog.state.destination(id) ?? { version: 0, name: '' };
    const fact: Fact = {
      v: 1,
      type: 'destination.updated',
      entity: id,
      expected_version: version,
      data: { ...older, name: 'Sales', settings: {} },
      by: 'stage:load',
      from: { address: '', request_id: '' },
      at: AT,
    };
    expect(await test.dependencies.catalog.propose(fact)).toMatchObject({ applied: true });
    expect((await read(id)).settings).toEqual({});
    await owner.ok('PATCH', `./destinations/${id}`, { name: 'Orders' });
    expect((await read(id)).settings).toEqual(stored);
  });
});

it('a warehouse gets no notices, and its connection test opens it', async () => {
  const { id } = await create();
  const alerts = { destination_id: id };
  expect(await owner.call('POST', './destinations', { name: 'N', type: TYPE, alerts })).toMatchObject({
    status: 400,
    body: { details: [{ path: '/alerts/destination_id', message: 'is a warehouse, which gets no notices' }] },
  });
  let closed = 0;
  const answers = { ok: false, reason: 'the role may not create tables' } as const;
  warehouse = Object.assign(new MemoryWarehouse(), {
    test: async () => answers,
    close: async () => {
      closed += 1;
    },
  });
  expect(await owner.ok('POST', `./destinations/${id}/test`)).toMatchObject(answers);
  expect(closed).toBe(1);
});

it('is refused while processes of an older release may run, because they would deliver to it', async () => {
  const upgrading = await openTestGateway({ dependencies: { connectors, isUpgradePending: () => true } });
  try {
    const person = await upgrading.openWorkspace();
    expect(await person.call('POST', './destinations', { name: 'W', type: TYPE })).toMatchObject({
      status: 409,
      body: { reason: 'upgrade_pending' },
    });
  } finally {
    await upgrading.close();
  }
});
