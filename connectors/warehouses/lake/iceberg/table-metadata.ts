import { type ColumnType, isObject, WarehouseRefused } from '@tributary/core';
import { DECIMAL } from '../cells.ts';

/*
 * The metadata of a table as a catalog tells it, checked: files are written and removed by it. Ids of snapshots and sequence
 * numbers have up to 63 bits, so documents are parsed with the digits of their numbers.
 */

/** A column of the current schema. */
export interface Field {
  readonly id: number;
  readonly name: string;
  /** Undefined for a type that none of ours is. */
  readonly type: ColumnType | undefined;
  /** As the catalog tells it. */
  readonly json: Readonly<Record<string, unknown>>;
}

export interface PartitionField {
  readonly id: number;
  readonly source: number;
  readonly transform: string;
  readonly name: string;
}

export interface PartitionSpec {
  readonly id: number;
  readonly fields: readonly PartitionField[];
  /** Its fields as the catalog tells them. */
  readonly json: unknown;
}

export interface Snapshot {
  readonly id: bigint;
  readonly sequence: bigint;
  /** Epoch ms. */
  readonly at: number;
  readonly manifestList: string;
}

export interface TableMetadata {
  /** Of the format: tables of another one than `WRITTEN_VERSION` are described, but neither read nor written. */
  readonly version: number;
  readonly uuid: string;
  /** Without a `/` at its end. */
  readonly location: string;
  readonly schemaId: number;
  readonly schemaJson: Readonly<Record<string, unknown>>;
  readonly fields: readonly Field[];
  readonly lastColumnId: number;
  /** The current one first. */
  readonly specs: readonly PartitionSpec[];
  /** Epoch ms. */
  readonly updatedAt: number;
  readonly lastSequence: bigint;
  readonly current: Snapshot | undefined;
  /** Those that the answer names, by id. */
  readonly snapshots: ReadonlyMap<bigint, Snapshot>;
  /** Snapshots that branches and tags hold, by name. */
  readonly refs: ReadonlyMap<string, bigint>;
  readonly properties: Readonly<Record<string, string>>;
}

/** The type of a column as tables that we make have it. */
const TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'boolean',
  bigint: 'long',
  numeric: `decimal(${DECIMAL.whole + DECIMAL.fraction}, ${DECIMAL.fraction})`,
  double: 'double',
  timestamp: 'timestamptz',
  text: 'string',
  json: 'string',
};
/** What says that the texts of a column are JSON. */
const JSON_DOC = 'JSON';

/** A column of this type, with what a schema says of it already. */
export function fieldWith(
  id: number,
  name: string,
  type: ColumnType,
  { doc, ...known }: Readonly<Record<string, unknown>> = {},
): Field {
  const text = doc === JSON_DOC ? undefined : doc;
  const said = type === 'json' ? JSON_DOC : text;
  const json = {
    ...known,
    id,
    name,
    required: known.required ?? false,
    type: TYPES[type],
    ...(said === undefined ? {} : { doc: said }),
  };
  return { id, name, type, json };
}

/** The type of a column. One of a narrower type that Iceberg widens in place counts as the wider one. */
function typeOf({ type, doc }: Readonly<Record<string, unknown>>): ColumnType | undefined {
  if (typeof type !== 'string') return undefined;
  const [, scale] = /^decimal\(\d+, ?(\d+)\)$/.exec(type) ?? [];
  if (scale !== undefined) return Number(scale) === DECIMAL.fraction ? 'numeric' : undefined;
  if (type === 'string') return doc === JSON_DOC ? 'json' : 'text';
  return OF_NAMES.get(type);
}

const OF_NAMES: ReadonlyMap<string, ColumnType> = new Map([
  ['boolean', 'boolean'],
  ['int', 'bigint'],
  ['long', 'bigint'],
  ['float', 'double'],
  ['double', 'double'],
  ['timestamptz', 'timestamp'],
]);

const MAX_FIELDS = 20_000;

/** Metadata as a catalog told it. Throws `WarehouseRefused` for a table that is not ours to write. */
export function tableMetadata(table: string, told: unknown): TableMetadata {
  const not = (what: string) => new WarehouseRefused(`the catalog tells of the table ${table} ${what}`);
  if (!isObject(told)) throw not('no metadata');
  const version = Number(told['format-version']);
  const metadata: Readonly<Record<string, unknown>> = version === 1 ? { ...ofVersion1(told), ...told } : told;
  const { location, properties, refs } = metadata;
  const uuid = metadata['table-uuid'];
  const schemaId = metadata['current-schema-id'];
  const specId = metadata['default-spec-id'];
  const lastColumnId = metadata['last-column-id'];
  const lastSequence = longOf(metadata['last-sequence-number']);
  if (
    typeof uuid !== 'string' ||
    typeof location !== 'string' ||
    typeof schemaId !== 'number' ||
    typeof specId !== 'number' ||
    typeof lastColumnId !== 'number' ||
    lastSequence === undefined
  )
    throw not('metadata that is not whole');
  const schemaJson = objectsIn(metadata.schemas).find((one) => one['schema-id'] === schemaId);
  if (schemaJson === undefined) throw not('no current schema');
  const fields = objectsIn(schemaJson.fields).map((json): Field => {
    const { id, name } = json;
    if (typeof id !== 'number' || typeof name !== 'string') throw not('a column without a name');
    return { id, name, type: typeOf(json), json };
  });
  if (fields.length > MAX_FIELDS) throw not('too many columns');
  const specs = objectsIn(metadata['partition-specs']).map((json): PartitionSpec => {
    const id = json['spec-id'];
    if (typeof id !== 'number') throw not('a partition without an id');
    return { id, fields: objectsIn(json.fields).map(partitionField), json: json.fields };
  });
  const snapshots = new Map<bigint, Snapshot>();
  for (const json of objectsIn(metadata.snapshots)) {
    const id = longOf(json['snapshot-id']);
    const manifestList = json['manifest-list'];
    if (id === undefined || typeof manifestList !== 'string') continue;
    const at = Number(longOf(json['timestamp-ms']) ?? 0n);
    snapshots.set(id, { id, at, manifestList, sequence: longOf(json['sequence-number']) ?? 0n });
  }
  const held = new Map<string, bigint>();
  for (const [name, ref] of Object.entries(isObject(refs) ? refs : {})) {
    const id = isObject(ref) ? longOf(ref['snapshot-id']) : undefined;
    if (id !== undefined) held.set(name, id);
  }
  const currentId = held.get(MAIN) ?? longOf(metadata['current-snapshot-id']);
  // -1 is what older catalogs tell of a table without a snapshot.
  const hasCurrent = currentId !== undefined && currentId !== -1n;
  const current = hasCurrent ? snapshots.get(currentId) : undefined;
  if (hasCurrent && current === undefined && version === WRITTEN_VERSION) throw not('no current snapshot');
  return {
    version,
    uuid,
    location: location.replace(/\/+$/, ''),
    schemaId,
    schemaJson,
    fields,
    lastColumnId,
    specs: specs.toSorted((one, other) => Number(other.id === specId) - Number(one.id === specId)),
    updatedAt: Number(longOf(metadata['last-updated-ms']) ?? 0n),
    lastSequence,
    current,
    snapshots,
    refs: held,
    properties: textsIn(properties),
  };
}

export const MAIN = 'main';
const WRITTEN_VERSION = 2;

/** Throws for a table whose files would not be understood. */
export function checkVersion(table: string, { version }: TableMetadata): void {
  if (version !== WRITTEN_VERSION)
    throw new WarehouseRefused(
      `the table ${table} has the format version ${version}: only ${WRITTEN_VERSION} is written`,
    );
}

/** What metadata of version 1 may lack. */
function ofVersion1({ schema }: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return {
    'table-uuid': '',
    'last-sequence-number': 0,
    'current-schema-id': 0,
    'default-spec-id': 0,
    schemas: [{ ...(isObject(schema) ? schema : {}), 'schema-id': 0 }],
  };
}

function partitionField(json: Readonly<Record<string, unknown>>): PartitionField {
  return {
    id: Number(json['field-id']),
    source: Number(json['source-id']),
    transform: String(json.transform),
    name: String(json.name),
  };
}

function objectsIn(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function textsIn(value: unknown): Readonly<Record<string, string>> {
  const entries = Object.entries(isObject(value) ? value : {});
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

/** A whole number of 63 bits, as `parseExact` gives it. */
export function longOf(value: unknown): bigint | undefined {
  // A number that is not exact as a double has the digits of its text.
  const digits = JSON.isRawJSON(value) ? value.rawJSON : typeof value === 'number' ? String(value) : '';
  return /^-?\d{1,19}$/.test(digits) ? BigInt(digits) : undefined;
}

/** A whole number of 63 bits as documents have it. */
export function longJson(value: bigint): unknown {
  return JSON.rawJSON(String(value));
}
