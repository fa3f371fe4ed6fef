import type { ColumnType, HeldColumn, TableChange, TableColumns } from '../ports/warehouse.ts';
import type { DraftColumn, DraftTable } from './load-draft.ts';
import type { ContractTypes, Drift, SchemaColumn, SchemaLedger, TableSchema } from './schema.ts';
import { areNumbers, join } from './types.ts';

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

interface TablePlanOptions {
  readonly schema: SchemaLedger;
  readonly contracts: ContractTypes;
  readonly described: ReadonlyMap<string, TableColumns>;
  /** What `Warehouse.alter` returned at the first attempt; none before. */
  readonly held: readonly HeldColumn[];
  readonly loadedAt: string;
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
  options: TablePlanOptions,
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
  { schema, contracts }: TablePlanOptions,
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
