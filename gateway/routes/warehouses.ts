import {
  BytesTally,
  HEADER,
  iso,
  LIVE_LANE,
  type LoadRecord,
  type LoadRequest,
  loadEveryMs,
  newestLoad,
  readStanding,
  recordBytes,
  TOPIC,
  type WarehouseTable,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { conflict } from '../errors/api-error.ts';
import { entityOf } from '../resources/catalog-entities.ts';
import { linkNext, pageQuery, pageRequest, withCursor } from '../resources/lists.ts';
import {
  closed,
  integer,
  listOf,
  noBody,
  nullable,
  oneOf,
  operation,
  shownAs,
  string,
  time,
  uuid,
} from '../resources/schemas.ts';

const loadAnswer = Type.Object({ destination_id: uuid, requested_at: time }, { title: 'LoadRequest' });

const columnResource = Type.Object({
  name: Type.String({ examples: ['total'] }),
  type: oneOf(['boolean', 'bigint', 'numeric', 'double', 'timestamp', 'text', 'json']),
  origin: oneOf(
    ['fixed', 'contract', 'value'],
    'Whether every table has it, or a contract or the first value decided its type.',
  ),
  path: nullable(
    Type.String({ description: 'Where its values are in an event.', examples: ['properties.total'] }),
  ),
  since: string('Since when it has this type.', 'date-time'),
});

const tableResource = Type.Object(
  {
    name: Type.String({ examples: ['order_completed'] }),
    columns: listOf(columnResource),
    rows: nullable(integer('Rows that were loaded, with those removed since; null where that is not known.')),
    created_at: time,
    updated_at: time,
  },
  { title: 'WarehouseTable' },
);

const schemaResource = Type.Object(
  { destination_id: uuid, tables: listOf(tableResource, 'By name.') },
  { title: 'WarehouseSchema' },
);

const counts = (description: string) =>
  Type.Unsafe<Readonly<Record<string, number>>>({
    type: 'object',
    additionalProperties: { type: 'integer' },
    description,
    examples: [{ tracks: 1_204, order_completed: 37 }],
  });

const CODES = ['unavailable', 'refused', 'missed', 'fault'] as const;
const code = oneOf(CODES, 'Why it failed.');

const loadResource = Type.Object(
  {
    id: string('Of the batch, as `_tributary_loads` has it.'),
    status: oneOf(
      ['loaded', 'failed'],
      '`failed`: loading fails since then, for this reason; or, with `missed`, events are lost to the warehouse.',
    ),
    lane: string('`live`, or the id of the replay that is a backfill.'),
    ranges: listOf(
      Type.Object({
        topic: Type.String(),
        partition: Type.Integer(),
        from: Type.Integer(),
        to: integer('Exclusive.'),
      }),
      'The records of the log that it holds.',
    ),
    rows: counts('Rows by table, without those that were there.'),
    discards: counts('Values and events that are in `discards`, by table.'),
    samples: listOf(
      Type.Object({
        table: Type.String(),
        column: Type.String(),
        message_id: Type.String(),
        position: Type.String(),
        reason: Type.String(),
      }),
      'Some of the discards.',
    ),
    schema_changes: listOf(
      Type.Object({
        table: Type.String(),
        column: Type.String(),
        from: nullable(string('Null: the column was added.')),
        to: Type.String(),
      }),
      'Columns that were added or widened for it; at most 100.',
    ),
    began_at: nullable(string('Null where its process was killed before it could say.', 'date-time')),
    ended_at: time,
    code: nullable(code),
    reason: nullable(string('Why it failed, or what else is worth knowing.')),
  },
  { title: 'Load' },
);

const warehouseResource = Type.Object(
  {
    destination_id: uuid,
    load_every_seconds: Type.Integer(),
    loaded_until: nullable(
      string(
        'Events that were accepted before are in the warehouse. Null while nothing is loaded.',
        'date-time',
      ),
    ),
    waiting_events: integer('Events that were accepted since, about, whatever its rules choose.'),
    last_load: Type.Union([loadResource, Type.Null()]),
    failure: nullable(
      Type.Object(
        {
          code,
          reason: nullable(Type.String()),
          since: string('Since when it fails for this reason.', 'date-time'),
          last_failed_at: time,
        },
        { description: 'Why loading fails now; null while it does not.' },
      ),
    ),
  },
  { title: 'Warehouse' },
);

const loadsQuery = closed({
  ...pageQuery,
  status: Type.Optional(oneOf(['loaded', 'failed'])),
  discards: Type.Optional(
    Type.Literal('true', { description: 'Only loads with values or events in `discards`.' }),
  ),
  lane: Type.Optional(
    Type.String({ minLength: 1, maxLength: 100, description: `\`${LIVE_LANE}\`, or the id of a replay.` }),
  ),
});

function presentTable(
  { name, columns, created_at, updated_at }: WarehouseTable,
  rows: number | undefined,
): Static<typeof tableResource> {
  const shown = Object.entries(columns).map(([name, column]) => shownAs(columnResource, column, { name }));
  return { name, columns: shown, rows: rows ?? null, created_at, updated_at };
}

function presentLoad(record: LoadRecord): Static<typeof loadResource> {
  return shownAs(loadResource, record, {
    status: record.kind,
    schema_changes: record.changes,
    began_at: record.began,
    ended_at: record.ended,
    code: record.code === undefined ? null : codeOf(record),
    reason: record.note ?? null,
  });
}

function codeOf(record: LoadRecord): Static<typeof code> {
  return CODES.find((known) => known === record.code) ?? 'fault';
}

/** The newest failures that are looked at: records of `missed` events may stand before one that lasts. */
const FAILURES = 10;

const path = '/workspaces/:workspaceId';

/** Warehouses: `POST destinations/{id}/load` loads at once, `GET warehouse/{id}/...` shows the tables and the loads. */
export const warehouseRoutes: Routes = async (app, dependencies) => {
  const { budgets, catalog, clock, counters, healthBoard, history, log } = dependencies;

  app.post(
    `${path}/destinations/:destinationId/load`,
    operation(
      'destinations.load',
      'loadWarehouse',
      'Load a warehouse at once, instead of after `load_every`',
      {
        body: noBody,
        response: { 202: loadAnswer },
      },
    ),
    async (request, reply) => {
      const { id, enabled, paused, workspace_id } = warehouseOf(request);
      if (!enabled || paused === true) throw conflict('disabled');
      const at = iso(clock());
      const asked: LoadRequest = { kind: 'requested', destination_id: id, workspace_id, at };
      const headers = {
        [HEADER.catalogPosition]: String(catalog.position),
        [HEADER.workspaceId]: workspace_id,
      };
      const entry = { key: id, value: JSON.stringify(asked), headers };
      await log.append(TOPIC.loads, [entry]);
      const bytes = new BytesTally();
      bytes.written(workspace_id, recordBytes(entry));
      budgets?.add(bytes);
      return reply.code(202).send({ destination_id: id, requested_at: at });
    },
  );

  app.get(
    `${path}/warehouse/:destinationId`,
    operation(
      'warehouse.read',
      'readWarehouse',
      'Read how far a warehouse is loaded, and whether loading fails',
      {
        response: { 200: warehouseResource },
      },
    ),
    async (request) => {
      const warehouse = warehouseOf(request);
      const { id, workspace_id: workspaceId } = warehouse;
      const facets = { destination_id: id, status: 'failed' };
      const [{ loadedUntil, waiting, health, newest }, last, failures] = await Promise.all([
        readStanding({ counters, healthBoard, history, log }, warehouse, clock()),
        newestLoad(history, warehouse),
        history.list({ kind: 'load', workspaceId, facets, limit: FAILURES }),
      ]);
      const failed = failures.entries
        .map(({ body }) => body as unknown as LoadRecord)
        .find((record) => record.code !== 'missed');
      const isFailing =
        health === undefined ? (failed?.ended ?? '') > (newest?.ended ?? '') : health.circuit !== 'closed';
      const [attempt] = health?.last_errors ?? [];
      return {
        destination_id: id,
        load_every_seconds: loadEveryMs(warehouse.settings) / 1_000,
        loaded_until: loadedUntil === undefined ? null : iso(loadedUntil),
        waiting_events: waiting,
        last_load: last === undefined ? null : presentLoad(last),
        failure:
          isFailing && failed !== undefined
            ? {
                code: codeOf(failed),
                reason: failed.note ?? null,
                since: failed.ended,
                last_failed_at: attempt === undefined ? failed.ended : iso(attempt.at),
              }
            : null,
      };
    },
  );

  app.get(
    `${path}/warehouse/:destinationId/schema`,
    operation(
      'warehouse.schema',
      'readWarehouseSchema',
      'Read the tables of a warehouse, with the origin of each column',
      {
        response: { 200: schemaResource },
      },
    ),
    async (request) => {
      const warehouse = warehouseOf(request);
      const { id, workspace_id: workspaceId } = warehouse;
      const newest = await newestLoad(history, warehouse);
      const tables = [...catalog.state.listing('warehouse_table', workspaceId, id).newestFirst()]
        .sort((a, b) => (a.name < b.name ? -1 : 1))
        .map((table) => presentTable(table, newest?.totals[table.name]));
      return { destination_id: id, tables };
    },
  );

  app.get(
    `${path}/warehouse/:destinationId/loads`,
    operation('warehouse.loads', 'listLoads', 'List the loads of a warehouse, and why loading failed', {
      querystring: loadsQuery,
      response: { 200: listOf(loadResource, 'Newest first.') },
    }),
    async (request, reply) => {
      const { id, workspace_id: workspaceId } = warehouseOf(request);
      const { limit, cursor } = pageRequest(request.query);
      const { status, lane, discards } = request.query;
      const facets = {
        destination_id: id,
        ...(status && { status }),
        ...(lane && { lane }),
        ...(discards && { discards }),
      };
      const query = { kind: 'load', workspaceId, facets, limit, ...(cursor && { cursor }) } as const;
      const page = await withCursor(() => history.list(query));
      linkNext(request, reply, page.next);
      return page.entries.map(({ body }) => presentLoad(body as unknown as LoadRecord));
    },
  );

  function warehouseOf(request: FastifyRequest) {
    const destination = entityOf(request, dependencies, 'destination');
    if (destination.warehouse !== true) throw conflict('not_a_warehouse');
    return destination;
  }
};
