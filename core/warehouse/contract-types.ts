import type { Contract } from '../catalog/entities.ts';
import { type TypeModel, typeModelOf } from '../contracts/plan/type-model.ts';
import type { ColumnType } from '../ports/warehouse.ts';
import { type ContractTypes, eventTable, LAYOUTS, type Layout, TABLES_OF_TYPES } from './layout.ts';
import { joinKnown } from './types.ts';
import { MAX_DEPTH } from './value-names.ts';

/** The types that active contracts give to columns. Contracts of one table and column have the join of their types. */
export function contractTypes(contracts: readonly Contract[], bound: number): ContractTypes {
  const tables = new Map<string, Map<string, ColumnType>>();
  for (const { status, event_type, event_name, schema_definition } of contracts) {
    if (status !== 'active') continue;
    const isTrack = event_type === 'track';
    const table = isTrack ? eventTable(event_name, bound) : TABLES_OF_TYPES[event_type];
    const columns = tables.get(table) ?? new Map<string, ColumnType>();
    tables.set(table, columns);
    addTypes(
      columns,
      typeModelOf(schema_definition),
      [],
      isTrack ? LAYOUTS.event : LAYOUTS[event_type],
      bound,
    );
  }
  return tables;
}

function addTypes(
  columns: Map<string, ColumnType>,
  { fields }: TypeModel,
  path: readonly string[],
  layout: Layout,
  bound: number,
): void {
  for (const { name, model } of fields) {
    const inColumn = [...path, name];
    if (inColumn.length < MAX_DEPTH) addTypes(columns, model, inColumn, layout, bound);
    const type = typeOfModel(model, inColumn.length);
    if (type === undefined) continue;
    const column = layout.column(inColumn, bound);
    columns.set(column, joinKnown(columns.get(column), type));
  }
}

/** The type that a schema gives; undefined where the values decide. */
function typeOfModel({ types, format }: TypeModel, depth: number): ColumnType | undefined {
  const named = (types ?? []).filter((type) => type !== 'null' && (type !== 'object' || depth >= MAX_DEPTH));
  const columnTypes = named.map((type): ColumnType => {
    switch (type) {
      case 'boolean':
        return 'boolean';
      case 'integer':
        return 'bigint';
      case 'number':
        return 'numeric';
      case 'string':
        return format === 'date-time' ? 'timestamp' : 'text';
      default:
        return 'json';
    }
  });
  return columnTypes.reduce<ColumnType | undefined>((known, type) => joinKnown(known, type), undefined);
}
