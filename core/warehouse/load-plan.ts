import { hash } from 'node:crypto';
import type { Json } from '../event/event.ts';
import type {
  ColumnType,
  ColumnValue,
  HeldColumn,
  ProfileRows,
  RefusedRow,
  TableChange,
  TableColumns,
  TableRows,
  WarehouseLimits,
} from '../ports/warehouse.ts';
import {
  type ContractTypes,
  DISCARDS,
  type Drift,
  IDENTITY_MAP,
  LAYOUTS,
  LOAD_TIMES,
  OF_DISCARDS,
  OF_IDENTITIES,
  OF_IDENTITY_MAP,
  type SchemaColumn,
  type SchemaLedger,
  type TableSchema,
  UNMAPPED,
  USERS,
} from './layout.ts';
import type { DraftColumn, DraftRow, DraftTable, LoadDraft, Lost, RowSource } from './load-draft.ts';
import { areNumbers, columnValue, fits, join, storable } from './types.ts';

/** What a batch needs of the warehouse, and its rows in their final form. */
export interface LoadPlan {
  readonly changes: readonly TableChange[];
  /** Ledgers that the load changes, as they are after it. */
  readonly schema: readonly TableSchema[];
  readonly drifts: readonly Drift[];
  readonly inserts: readonly TableRows[];
  readonly profiles: ProfileRows | undefined;
  /** For `WarehouseBatch`. */
  discardsOf(refused: readonly RefusedRow[]): TableRows;
  /** Rows by table, for the ledger. */
  readonly rows: Readonly<Record<string, number>>;
  /** Rows of `discards` by the table that lacks the value; those of whole events by `''`. */
  readonly discards: Readonly<Record<string, number>>;
}

export interface PlanOptions {
  readonly limits: WarehouseLimits;
  readonly schema: SchemaLedger;
  readonly contracts: ContractTypes;
  /** The answer of `Warehouse.describe` for the tables of the draft. */
  readonly described: ReadonlyMap<string, TableColumns>;
  /** What `Warehouse.alter` returned when the batch was planned before; none at first. */
  readonly held: readonly HeldColumn[];
  /** ISO 8601 */
  readonly loadedAt: string;
}

/** The steps of planning a load, of about a millisecond each: a thread that others need yields between them. */
export type PlanningSteps = Generator<void, LoadPlan>;

/** Rows whose values are looked at in one step. */
const STEP_ROWS = 500;

/**
 * Decides the types of all columns and makes the rows. The draft's rows lose the values that do not fit, so it may be planned
 * again with columns that are held, but not for another warehouse.
 */
export function* planSteps(draft: LoadDraft, options: PlanOptions): PlanningSteps {
  const { limits } = options;
  const { tables, profiles } = draft;
  const plans: TablePlan[] = [];
  const loaded = new Map<string, TableRows>();
  const sources = new Map<string, readonly DraftRow[]>();
  const discards = new Discards(options);
  const newest = new Set([...profiles.values()].map(({ row }) => row));

  for (const table of tables.values()) {
    const rows = table.name === USERS ? table.rows.filter((row) => newest.has(row)) : table.rows;
    const plan = planTable(table, table.layout.fixed, options);
    plans.push(plan);
    yield* takeOutMisfits(table, rows, plan.types, limits);
    for (const { source, lost } of rows) if (lost.length > 0) discards.add(table.name, source, lost);
    loaded.set(table.name, tableRows(table, rows, plan.types, options));
    sources.set(table.name, rows);
    yield;
  }
  for (const { source, lost } of draft.dropped) discards.add('', source, [lost]);
  const planFixed = (name: string, fixed: ReadonlyMap<string, ColumnType>) => {
    const plan = planTable({ name, columns: new Map() }, fixed, options);
    plans.push(plan);
    return plan.types;
  };
  const ofDiscards = writable(OF_DISCARDS, planFixed(DISCARDS, OF_DISCARDS));
  if (profiles.size > 0) planFixed(IDENTITY_MAP, OF_IDENTITY_MAP);
  if (profiles.size > 0 && !tables.has(USERS)) planFixed(USERS, LAYOUTS.users.fixed);

  const users = loaded.get(USERS);
  const inserts = [...loaded.values()].filter((rows) => rows !== users);
  if (discards.count > 0) inserts.push(discards.rows(ofDiscards));
  return {
    changes: plans.flatMap(({ change }) => change ?? []),
    schema: plans.flatMap(({ schema }) => schema ?? []),
    drifts: plans.flatMap(({ drifts }) => drifts),
    inserts,
    profiles: profiles.size === 0 ? undefined : profileRows(draft, users, limits),
    discardsOf(refused) {
      const whole = new Discards(options);
      for (const { table, row, reason } of refused) {
        const from = sources.get(table)?.[row];
        if (from !== undefined) whole.add(table, from.source, [wholeRow(from, reason)]);
      }
      return whole.rows(ofDiscards);
    },
    rows: Object.fromEntries([...loaded].map(([name, { count }]) => [name, count])),
    discards: Object.fromEntries(discards.counts),
  };
}

function profileRows(
  { profiles }: LoadDraft,
  users: TableRows | undefined,
  limits: WarehouseLimits,
): ProfileRows {
  const held = [...profiles.values()].flatMap(({ ucid, at, identities }) =>
    identities.map(({ type, value }) => [ucid, type, storable(value, limits) ?? null, at]),
  );
  return {
    users: users ?? { table: USERS, columns: new Map(), count: 0, rows: [] },
    identities: { table: IDENTITY_MAP, columns: OF_IDENTITIES, count: held.length, rows: held },
    gone: [...profiles.values()].filter(({ row }) => row === undefined),
  };
}

/** Moves values that their column does not hold to those that are lost. */
function* takeOutMisfits(
  { columns }: DraftTable,
  rows: readonly DraftRow[],
  types: ReadonlyMap<string, ColumnType>,
  limits: WarehouseLimits,
): Generator<void, void> {
  const doubtful = new Set<string>();
  for (const [name, column] of columns) {
    const type = types.get(name);
    const isSafe = type !== undefined && [...column.types].every((one) => join(one, type) === type);
    if (!isSafe || column.hasOddText) doubtful.add(name);
  }
  if (doubtful.size === 0) return;
  for (const [index, { names, values, lost }] of rows.entries()) {
    if (index % STEP_ROWS === STEP_ROWS - 1) yield;
    for (const [at, { column, path }] of names.entries()) {
      const value = values[at] ?? null;
      if (value === null || !doubtful.has(column)) continue;
      const type = types.get(column);
      if (type !== undefined && fits(value, type, limits)) continue;
      const replaced = type === 'text' ? storable(String(columnValue(value, type)), limits) : undefined;
      values[at] = replaced ?? null;
      if (replaced === undefined) lost.push({ path, column, value, reason: misfit(type) });
      else
        lost.push({
          path,
          column,
          value,
          reason: 'characters that the warehouse cannot hold',
          isInColumn: true,
        });
    }
  }
}

function misfit(type: ColumnType | undefined): string {
  return type === undefined
    ? 'the column has a type that nothing is loaded into'
    : `the column is of type ${type}`;
}

function tableRows(
  { name, columns }: DraftTable,
  rows: readonly DraftRow[],
  types: ReadonlyMap<string, ColumnType>,
  { limits, loadedAt }: PlanOptions,
): TableRows {
  const used = new Map<string, ColumnType>();
  for (const [column, type] of types) {
    const hasValues = (columns.get(column)?.types.size ?? 0) > 0;
    if (hasValues || LOAD_TIMES.has(column)) used.set(column, type);
  }
  const unmappedType = types.get(UNMAPPED);
  if (unmappedType !== undefined && rows.some(({ lost }) => lost.some(isUnmapped)))
    used.set(UNMAPPED, unmappedType);
  const places = new Map([...used].map(([column, type], at) => [column, { type, at }]));
  const emptyRow: ColumnValue[] = [...used.keys()].map((column) =>
    LOAD_TIMES.has(column) ? loadedAt : null,
  );
  const unmappedAt = places.get(UNMAPPED)?.at;

  function* made(): Generator<readonly ColumnValue[]> {
    for (const { names, values, lost } of rows) {
      const row = emptyRow.slice();
      for (let at = 0; at < names.length; at++) {
        const value = values[at];
        if (value === null || value === undefined) continue;
        const place = places.get(names[at]?.column ?? '');
        if (place !== undefined) row[place.at] = columnValue(value, place.type);
      }
      if (unmappedAt !== undefined && lost.some(isUnmapped))
        row[unmappedAt] = storable(JSON.stringify(treeOf(lost.filter(isUnmapped))), limits) ?? null;
      yield row;
    }
  }
  return { table: name, columns: used, count: rows.length, rows: { [Symbol.iterator]: made } };
}

function isUnmapped({ isInColumn, path }: Lost): boolean {
  return isInColumn !== true && path.length > 0;
}

/** The columns of a fixed table that can be written: those that have their type still, or became texts. */
function writable(
  fixed: ReadonlyMap<string, ColumnType>,
  types: ReadonlyMap<string, ColumnType>,
): ReadonlyMap<string, ColumnType> {
  return new Map(
    [...types].filter(([name, type]) => fixed.has(name) && (type === fixed.get(name) || type === 'text')),
  );
}

type Tree = { [name: string]: Tree | Json };

/** Values in the shape of the event. */
function treeOf(lost: readonly Lost[]): Tree {
  const root = newTree();
  for (const { path, value } of lost) {
    let tree = root;
    for (const name of path.slice(0, -1)) {
      const below = tree[name];
      const next = isTree(below) ? below : newTree();
      tree[name] = next;
      tree = next;
    }
    tree[path.at(-1) ?? ''] = value;
  }
  return root;
}

/** Without a prototype, so that `__proto__` is a name like others. */
function newTree(): Tree {
  return Object.create(null) as Tree;
}

/** Two of these are never values of one path, because an event has one value there. */
function isTree(value: Tree | Json | undefined): value is Tree {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === null;
}

/** A row that the warehouse refused, as one discard. */
function wholeRow({ names, values, lost }: DraftRow, reason: string): Lost {
  const value = newTree();
  for (const [at, { column }] of names.entries()) value[column] = values[at] ?? null;
  if (lost.some(isUnmapped)) value[UNMAPPED] = treeOf(lost.filter(isUnmapped));
  return { path: [], column: null, value: value as Json, reason };
}

/** Discards of one row at most; the last one has all values that are left. */
const MAX_DISCARDS = 32;

/** The rows of `discards`. */
class Discards {
  readonly #limits: WarehouseLimits;
  readonly #loadedAt: string;
  readonly #rows: ColumnValue[][] = [];
  readonly counts = new Map<string, number>();

  constructor({ limits, loadedAt }: PlanOptions) {
    this.#limits = limits;
    this.#loadedAt = loadedAt;
  }

  add(table: string, source: RowSource, lost: readonly Lost[]): void {
    const [alone, others] = [lost.slice(0, MAX_DISCARDS - 1), lost.slice(MAX_DISCARDS - 1)];
    const [next] = others;
    const last: readonly Lost[] =
      next === undefined || others.length === 1
        ? others
        : [
            {
              path: [],
              column: null,
              value: treeOf(others) as Json,
              reason: `${others.length} more values: ${next.reason}`,
            },
          ];
    for (const one of [...alone, ...last]) {
      const parts = partsOf(JSON.stringify(one.value), this.#limits.textBytes);
      for (const [part, value] of parts.entries())
        this.#rows.push(this.#row(table, source, one, { value, part, parts: parts.length }));
      this.counts.set(table, (this.counts.get(table) ?? 0) + 1);
    }
  }

  get count(): number {
    return this.#rows.length;
  }

  rows(columns: ReadonlyMap<string, ColumnType>): TableRows {
    const names = [...OF_DISCARDS.keys()];
    const rows = this.#rows.map((row) => row.filter((_value, at) => columns.has(names[at] ?? '')));
    return { table: DISCARDS, columns, count: rows.length, rows };
  }

  #row(
    table: string,
    { id: rowId, position, messageId, receivedAt }: RowSource,
    { path, column, reason }: Lost,
    { value, part, parts }: { readonly value: string; readonly part: number; readonly parts: number },
  ): ColumnValue[] {
    // The same of each attempt and backfill. Of a whole row or event the reason tells one discard from another.
    const what = [path, column ?? reason, ...(part === 0 ? [] : [part])];
    const id = hash('sha256', JSON.stringify([position, rowId, table, ...what])).slice(0, 32);
    const ofParts = parts === 1 ? '' : ` (part ${part + 1} of ${parts})`;
    const text = (of: string | null) => (of === null ? null : (storable(of, this.#limits) ?? null));
    return [
      id,
      text(messageId),
      position,
      table === '' ? null : table,
      column,
      value,
      `${text(reason) ?? ''}${ofParts}`,
      receivedAt,
      this.#loadedAt,
    ];
  }
}

/** The text in parts that a text column holds, cut between characters. */
function partsOf(text: string, bytes: number | undefined): readonly string[] {
  if (bytes === undefined || Buffer.byteLength(text) <= bytes) return [text];
  const parts: string[] = [];
  // A UTF-16 unit has three bytes at most.
  for (let at = 0; at < text.length; at += parts.at(-1)?.length ?? 0) {
    const part = text.slice(at, at + Math.floor(bytes / 3));
    parts.push(part.isWellFormed() ? part : part.slice(0, -1));
  }
  return parts;
}

/** What a table becomes before the rows of a batch are loaded into it. */
export interface TablePlan {
  /** Undefined where the table stays as it is. */
  readonly change: TableChange | undefined;
  /** The ledger after the change; undefined where it stays as it is. */
  readonly schema: TableSchema | undefined;
  readonly drifts: readonly Drift[];
  /** The types of all columns that values can be written into. */
  readonly types: ReadonlyMap<string, ColumnType>;
}

/** What is wanted of a column, before the warehouse is asked. */
interface Wanted {
  readonly type: ColumnType;
  readonly ledger: SchemaColumn | undefined;
  readonly origin: SchemaColumn['origin'];
  readonly path: string | undefined;
}

/**
 * A column gets the join of its type in the ledger, of its contract's type and of the types of its values. Values widen a
 * column with a contract among the types of numbers only: another value breaks the contract.
 *
 * The warehouse may have another type than the ledger. A wider one was made by a load that ended before its ledger was stored,
 * or does no harm: it stays. Any other one was made by a person: the column stays as it is, and gets the values that it holds.
 */
export function planTable(
  table: Pick<DraftTable, 'name' | 'columns'>,
  fixed: ReadonlyMap<string, ColumnType>,
  options: Omit<PlanOptions, 'limits'>,
): TablePlan {
  const { name } = table;
  const described = options.described.get(name);
  const ledger = options.schema.get(name);
  const drifts: Drift[] = [];
  if (described === undefined && ledger !== undefined) drifts.push({ table: name, kind: 'missing' });
  const add = new Map<string, ColumnType>();
  const widen = new Map<string, { readonly from: ColumnType; readonly to: ColumnType }>();
  const types = new Map<string, ColumnType>();
  const columns: Record<string, SchemaColumn> = { ...ledger?.columns };

  for (const [column, wanted] of wantedColumns(table, fixed, options)) {
    const type = typeNow(column, wanted);
    if (type === undefined) continue;
    types.set(column, type);
    const { ledger: known, origin, path } = wanted;
    // The ledger keeps the type that was expected, so that a column that was retyped by hand stays known as such.
    if (known !== undefined && join(known.type, type) !== type) continue;
    if (known?.type === type) continue;
    columns[column] = { type, origin, ...(path === undefined ? {} : { path }), since: options.loadedAt };
  }
  const isChanged = Object.keys(columns).some((column) => columns[column] !== ledger?.columns[column]);
  const hasChange = add.size + widen.size > 0;
  return {
    change: hasChange ? { table: name, add, widen } : undefined,
    schema: isChanged ? { table: name, columns } : undefined,
    drifts,
    types,
  };

  /** The type that the column has once the changes are made; undefined for one of a foreign type. */
  function typeNow(column: string, { type, ledger: known }: Wanted): ColumnType | undefined {
    const held = options.held.find((one) => one.table === name && one.column === column);
    if (held !== undefined) {
      drifts.push({ table: name, column, kind: 'held', expected: type, reason: held.reason });
      return described?.get(column);
    }
    if (described?.has(column) !== true) {
      if (described !== undefined && known !== undefined)
        drifts.push({ table: name, column, kind: 'missing' });
      add.set(column, type);
      return type;
    }
    const found = described.get(column);
    if (found === undefined) {
      drifts.push({ table: name, column, kind: 'foreign', expected: type });
      return undefined;
    }
    const expected = known?.type ?? fixed.get(column);
    if (expected !== undefined && join(expected, found) !== found) {
      drifts.push({ table: name, column, kind: 'retyped', expected, found });
      return found;
    }
    const to = join(found, type);
    if (to !== found) widen.set(column, { from: found, to });
    return to;
  }
}

function wantedColumns(
  { name, columns }: Pick<DraftTable, 'name' | 'columns'>,
  fixed: ReadonlyMap<string, ColumnType>,
  { schema, contracts }: Omit<PlanOptions, 'limits'>,
): ReadonlyMap<string, Wanted> {
  const ledger = schema.get(name)?.columns ?? {};
  const wanted = new Map<string, Wanted>();
  for (const column of new Set([...fixed.keys(), ...Object.keys(ledger), ...columns.keys()])) {
    const known = Object.hasOwn(ledger, column) ? ledger[column] : undefined;
    const ofLayout = fixed.get(column);
    const draft = columns.get(column);
    const contract = contracts.get(name)?.get(column);
    const types = [known?.type, ofLayout, ...(ofLayout === undefined ? typesOf(draft, contract) : [])];
    const type = joinAll(types.filter((one) => one !== undefined));
    if (type === undefined) continue;
    const origin = ofLayout !== undefined ? 'fixed' : contract !== undefined ? 'contract' : 'value';
    const path = ofLayout === undefined ? (draft?.name.path.join('.') ?? known?.path) : undefined;
    wanted.set(column, { type, ledger: known, origin, path: known?.path ?? path });
  }
  return wanted;
}

/** The types that the batch wants for a column: of its contract, and of the values that the contract allows. */
function typesOf(draft: DraftColumn | undefined, contract: ColumnType | undefined): readonly ColumnType[] {
  const ofValues = [...(draft?.types ?? [])];
  if (contract === undefined) return ofValues;
  return [contract, ...ofValues.filter((type) => areNumbers(type, contract))];
}

function joinAll(types: readonly ColumnType[]): ColumnType | undefined {
  const [first, ...others] = types;
  return first === undefined ? undefined : others.reduce(join, first);
}
