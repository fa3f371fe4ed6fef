import type { CanonicalEvent, Json } from '../event/event.ts';
import type {
  ColumnType,
  ColumnValue,
  TableChange,
  TableColumns,
  TableRows,
  WarehouseLimits,
} from '../ports/warehouse.ts';
import type { ContractTypes, TableSchema } from './layout.ts';
import { LoadDraft } from './load-draft.ts';
import { type LoadPlan, type PlanOptions, planSteps } from './load-plan.ts';

/** `planSteps` in one go. */
export function planLoad(draft: LoadDraft, options: PlanOptions): LoadPlan {
  const steps = planSteps(draft, options);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

export const LIMITS: WarehouseLimits = {
  nameLength: 63,
  numeric: undefined,
  textBytes: undefined,
  holdsZero: false,
  columns: 1_500,
  rowValues: 320,
  batchBytes: 1_000_000,
};

export type Row = Readonly<Record<string, ColumnValue>>;

/** A warehouse in memory, which does what a plan says. Widened values are as an engine casts them. */
export class ModelWarehouse {
  readonly limits: WarehouseLimits;
  readonly columns = new Map<string, Map<string, ColumnType | undefined>>();
  readonly #rows = new Map<string, Record<string, ColumnValue>[]>();
  readonly #schema = new Map<string, TableSchema>();
  readonly #contracts: ContractTypes;
  #offset = 0;

  constructor({
    limits = LIMITS,
    contracts = new Map(),
  }: { readonly limits?: WarehouseLimits; readonly contracts?: ContractTypes } = {}) {
    this.limits = limits;
    this.#contracts = contracts;
  }

  get schema(): ReadonlyMap<string, TableSchema> {
    return this.#schema;
  }

  rows(table: string): readonly Row[] {
    return this.#rows.get(table) ?? [];
  }

  load(events: readonly CanonicalEvent[], { maxEventTables = 500 } = {}): LoadPlan {
    const draft = new LoadDraft({ limits: this.limits, schema: this.#schema, maxEventTables });
    for (const event of events) draft.addEvent(event, `events.accepted/0/${this.#offset++}`);
    return this.apply(draft);
  }

  apply(draft: LoadDraft): LoadPlan {
    const plan = planLoad(draft, {
      limits: this.limits,
      schema: this.#schema,
      contracts: this.#contracts,
      described: this.columns as ReadonlyMap<string, TableColumns>,
      held: [],
      loadedAt: '2024-03-01T00:00:00.000Z',
    });
    for (const change of plan.changes) this.#alter(change);
    for (const table of plan.schema) this.#schema.set(table.table, table);
    for (const rows of plan.inserts) this.#insert(rows);
    return plan;
  }

  #alter({ table, add, widen }: TableChange): void {
    const columns = this.columns.get(table) ?? new Map<string, ColumnType | undefined>();
    this.columns.set(table, columns);
    for (const [column, type] of add) columns.set(column, type);
    for (const [column, { from, to }] of widen) {
      if (columns.get(column) !== from) throw new Error(`${table}.${column} is no ${from}`);
      columns.set(column, to);
      for (const row of this.#rows.get(table) ?? [])
        if (typeof row[column] === 'boolean') row[column] = String(row[column]);
    }
  }

  #insert({ table, columns, rows, count }: TableRows): void {
    const known = this.#rows.get(table) ?? [];
    this.#rows.set(table, known);
    const ids = new Set(known.map(({ id }) => id));
    const before = known.length;
    for (const values of rows) {
      const row = Object.fromEntries([...columns.keys()].map((column, at) => [column, values[at] ?? null]));
      for (const [column, type] of columns)
        if (this.columns.get(table)?.get(column) !== type)
          throw new Error(`${table}.${column} is no ${type}`);
      if (ids.has(row.id ?? null)) continue;
      ids.add(row.id ?? null);
      known.push(row);
    }
    if (known.length - before > count) throw new Error('more rows than counted');
  }
}

let made = 0;

/** A track event with these properties. */
export function track(
  event: string,
  properties: Readonly<Record<string, Json>>,
  more: Partial<CanonicalEvent> = {},
): CanonicalEvent {
  made += 1;
  return {
    message_id: `m-${made}`,
    type: 'track',
    event,
    user_id: 'ann',
    properties,
    timestamp: '2024-02-29T12:00:00.000Z',
    received_at: '2024-02-29T12:00:01.000Z',
    environment: 'production',
    workspace_id: 'w',
    ...more,
  };
}
