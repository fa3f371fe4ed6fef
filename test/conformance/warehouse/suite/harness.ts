import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectorsOptions } from '@tributary/connectors';
import {
  batchId,
  type CanonicalEvent,
  type ColumnType,
  type CommitResult,
  type Drift,
  type HeldColumn,
  type Json,
  type JsonObject,
  LoadDraft,
  type LoadPlan,
  newId,
  type PlanOptions,
  type ProfileChangeValue,
  planSteps,
  type TableSchema,
  Unavailable,
  type Warehouse,
} from '@tributary/core';
import { createTestConnectors, ENGINE_CONNECTORS, WORKSPACE_ID } from '../../connector/suite/harness.ts';

/** A warehouse of one engine, empty at first. */
export interface WarehouseHarness {
  /** Another loader of the same destination: with its own connections. The harness closes it. */
  open(): Warehouse;
  /** The rows of a table by a reader of its own; numbers as their digits, JSON as its text, times in UTC. Empty without one. */
  rows(table: string): Promise<readonly Readonly<Record<string, string | boolean | null>>[]>;
  /** The type of a column as the port names it; undefined without the column. */
  type(table: string, column: string): Promise<ColumnType | undefined>;
  /** Rows are known by `id` and the time at which they were received; absent: by `id`. */
  readonly knowsIdsByTime?: true;
  /** Changes by hand. */
  byHand: {
    dropTable(table: string): Promise<void>;
    /** This and the next two are absent where nobody changes single columns. */
    dropColumn?(table: string, column: string): Promise<void>;
    retype?(table: string, column: string, type: ColumnType): Promise<void>;
    /** To a type that none of ours is. */
    makeForeign?(table: string, column: string): Promise<void>;
    /** Refuses rows in which a text column has this value; absent where an engine has nothing that refuses single rows. */
    refuse?(table: string, column: string, value: string): Promise<void>;
    /** Makes the type of a column one that may not be changed; absent where the engine lets everything be changed. */
    hold?(table: string, column: string): Promise<void>;
    dropLedger(): Promise<void>;
  };
  /** Values that the engine of the test holds in a row, where those of the warehouse are more. */
  readonly rowValues?: number;
  /** Letters of a name in the engine of the test, where those of the warehouse are more. */
  readonly nameLength?: number;
  /** Loses the answer to the next commit, and the connection with it. */
  loseNextCommit(): void;
  /** Ends the connection of a loader in the middle of a load: after so many further bytes. */
  cutAfter(bytes: number): void;
  /** Ends all connections of loaders, and lets none be opened until `mend`. */
  fail(): Promise<void>;
  mend(): Promise<void>;
  close(): Promise<void>;
}

/** One of a server that other processes reach too. */
export interface ServerHarness extends WarehouseHarness {
  /** What a user would write of it. */
  readonly destination: { readonly type: string; readonly settings: JsonObject };
  /** The rows of a table; 0 without it. */
  count(table: string): Promise<number>;
  byHand: WarehouseHarness['byHand'] &
    Required<Pick<WarehouseHarness['byHand'], 'dropColumn' | 'retype' | 'makeForeign'>> & {
      addColumn(table: string, column: string, type: ColumnType): Promise<void>;
    };
}

/** Loaders of one destination of a kind, or of another with its settings, and their end. */
export function loadersOf(type: string, settings: JsonObject, options: Partial<ConnectorsOptions> = {}) {
  const own = newId();
  const opened: Warehouse[] = [];
  const connectors = createTestConnectors({ ...ENGINE_CONNECTORS, ...options });
  return {
    open(as: JsonObject = {}, id = own): Warehouse {
      const destination = { id, workspaceId: WORKSPACE_ID, version: 1, settings: { ...settings, ...as } };
      const warehouse = connectors.warehouse(type, destination);
      if (warehouse === undefined) throw new Error('no such kind');
      opened.push(warehouse);
      return warehouse;
    },
    async close(): Promise<void> {
      await Promise.all(opened.map((warehouse) => warehouse.close()));
      await connectors.close();
    },
  };
}

export const signal = new AbortController().signal;
/** A load is tried again after so long, and no more after so long, ms. */
const AGAIN_MS = 20;
const AT_LAST_MS = 60_000;
const NEVER_LOADED = '2024-03-01T00:00:00.000Z';

export interface Loaded {
  readonly plan: LoadPlan;
  readonly result: CommitResult;
  readonly drifts: readonly Drift[];
}

export interface LoadOptions {
  readonly changes?: readonly ProfileChangeValue[];
  readonly lane?: string;
  readonly seq?: number;
  readonly maxEventTables?: number;
  /** Forgets the ledger of the schema, as a loader does that ended before it was stored. */
  readonly forgets?: true;
}

/** Loads as the stage does, without a log: the ledger of the schema is kept here. */
export class TestLoader {
  readonly warehouse: Warehouse;
  readonly schema = new Map<string, TableSchema>();
  #offset = 0;

  constructor(warehouse: Warehouse) {
    this.warehouse = warehouse;
  }

  /** Plans again where another load made the plan old, or has written this one. */
  async loadAtLast(events: readonly CanonicalEvent[], options: LoadOptions): Promise<void> {
    const until = performance.now() + AT_LAST_MS;
    while (true) {
      try {
        if ((await this.load(events, options)).result.done) return;
      } catch (error) {
        // Of a test that failed the harness is closed, and nothing is loaded any more.
        if (!(error instanceof Unavailable) || performance.now() > until) throw error;
        await sleep(AGAIN_MS);
      }
    }
  }

  async load(events: readonly CanonicalEvent[], options: LoadOptions = {}): Promise<Loaded> {
    const { warehouse, schema } = this;
    const { limits } = warehouse;
    const { lane = 'live', changes = [], maxEventTables = 500 } = options;
    const newest = await warehouse.newest(lane, signal);
    const draft = new LoadDraft({ limits, schema, maxEventTables });
    const from = this.#offset;
    for (const event of events) draft.addEvent(event, `events.accepted/0/${this.#offset++}`);
    for (const [at, change] of changes.entries()) draft.addChange(change, `profiles.changes/0/${from + at}`);
    const plan = async (held: readonly HeldColumn[]) =>
      planned(draft, {
        limits,
        schema,
        contracts: new Map(),
        held,
        described: await warehouse.describe(draft.tableNames, signal),
        loadedAt: NEVER_LOADED,
      });
    let decided = await plan([]);
    const held = await warehouse.alter(decided.changes, signal);
    if (held.length > 0) decided = await plan(held);
    if (options.forgets !== true) for (const table of decided.schema) schema.set(table.table, table);
    const seq = options.seq ?? (newest?.seq ?? 0) + 1;
    const ranges = [{ topic: 'events.accepted', partition: 0, from, to: this.#offset }];
    const { rows, inserts, profiles, discardsOf, drifts } = decided;
    const batch = batchId('destination', lane, seq, ranges);
    const ledger = { lane, seq, batch, ranges, rows, loadedAt: NEVER_LOADED };
    const result = await warehouse.commit({ ledger, attempt: 1, inserts, profiles, discardsOf }, signal);
    return { plan: decided, result, drifts };
  }
}

/** Does all pieces of maintenance. */
export async function maintained(warehouse: Warehouse): Promise<void> {
  while ((await warehouse.maintain?.(signal)) === true);
}

function planned(draft: LoadDraft, options: PlanOptions): LoadPlan {
  const steps = planSteps(draft, options);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

let made = 0;

/** A track event with these properties. */
export function track(
  name: string,
  properties: Readonly<Record<string, Json>>,
  more: Partial<CanonicalEvent> = {},
): CanonicalEvent {
  made += 1;
  return {
    message_id: `m-${made}`,
    type: 'track',
    event: name,
    user_id: `u-${made}`,
    properties,
    timestamp: '2024-02-29T12:00:00.000Z',
    received_at: '2024-02-29T12:00:01.000Z',
    environment: 'production',
    workspace_id: 'w',
    ...more,
  };
}
