import { type CsvError, parse } from 'csv-parse/sync';
import {
  EVENT_TYPES,
  type EventType,
  hasName,
  isObject,
  type Json,
  type JsonObject,
  objectIn,
} from '../../event/event.ts';
import { fromShortForm, MAX_SCHEMA_DEPTH } from '../definition/definition.ts';
import { canonicalJson, deeperThan, isList } from '../json-values.ts';
import { lastOf } from '../work.ts';
import { leftOut, mended, typeOfWord } from './payload-schema.ts';
import { normalSchema } from './schema-walk.ts';
import {
  type ImportedContract,
  labelsOf,
  MAX_PLAN_CONTRACTS,
  type PlanContract,
  type PlanRemark,
  type ReadingSteps,
  tooMany,
} from './tracking-plan.ts';

type CsvRow = Omit<Row, 'line'>;

/**
 * A contract in a table: one row for its event, and one for each property, nested ones as `address.city` and
 * `lines.$.sku`. A schema that the columns cannot express is in the column `JSON Schema`, so that reading it gives the same.
 */
export function csvRows(contract: PlanContract): string {
  return writeRows(rowsOf(contract));
}

function rowsOf(contract: PlanContract): readonly CsvRow[] {
  const { event_type, event_name, description, schema_definition } = contract;
  const event: CsvRow = {
    type: event_type,
    event: event_name,
    ...(description === null ? {} : { eventDescription: description }),
  };
  const labels = [...labelsOf(contract)].map(([key, value]) => `${key}:${value}`).join(', ');
  const schema = fromShortForm(schema_definition);
  const others = othersCell(schema.additionalProperties);
  const head = {
    ...event,
    ...(labels === '' ? {} : { labels }),
    ...(others === undefined ? {} : { others }),
  };
  const rows = [
    head,
    ...fieldRows(schema, '').map((row) => ({ type: event_type, event: event_name, ...row })),
  ];
  if (isReadAs(rows, schema)) return rows;
  return [{ ...event, schema: JSON.stringify(schema_definition) }];
}

function isReadAs(rows: readonly CsvRow[], schema: JsonObject): boolean {
  const { contracts, faults } = lastOf(readTable(rows.map(asWritten)));
  const [read] = contracts;
  return faults.length === 0 && read !== undefined && isSame(read.schema_definition, schema);
}

/** A cell without text is no cell. */
function asWritten(row: CsvRow, line: number): Row {
  return { ...Object.fromEntries(Object.entries(row).filter(([, cell]) => cell !== '')), line };
}

function isSame(one: JsonObject, other: JsonObject): boolean {
  return canonicalJson(normalSchema(one)) === canonicalJson(normalSchema(other));
}

function fieldRows(schema: JsonObject, path: string): readonly CsvRow[] {
  if (!isObject(schema.properties)) return [];
  const required = new Set(schema.required !== undefined && isList(schema.required) ? schema.required : []);
  return Object.entries(schema.properties).flatMap(([name, field]) => {
    const own = path === '' ? escapedName(name) : `${path}.${escapedName(name)}`;
    return valueRows(objectIn(field), own, required.has(name));
  });
}

function valueRows(schema: JsonObject, property: string, required: boolean): readonly CsvRow[] {
  const others = othersCell(schema.additionalProperties);
  const row: CsvRow = {
    property,
    ...(typeof schema.description === 'string' ? { propertyDescription: schema.description } : {}),
    required: required ? 'required' : 'optional',
    dataType: dataTypeOf(schema),
    ...permittedOf(schema),
    ...(others === undefined ? {} : { others }),
  };
  const items = isObject(schema.items) ? valueRows(schema.items, `${property}.$`, false) : [];
  const rows = [row, ...fieldRows(schema, property), ...items];
  const [name = '', ...inner] = partsOf(property);
  // A nested property is checked with the outermost one.
  if (inner.length > 0) return rows;
  const alone = rows.map((one) => ({
    type: 'track',
    event: 'e',
    ...one,
    ...(one === row ? { required: 'optional' } : {}),
  }));
  if (isReadAs(alone, { properties: { [unescapedName(name)]: schema } })) return rows;
  return [{ property, required: required ? 'required' : 'optional', schema: JSON.stringify(schema) }];
}

function othersCell(others: Json | undefined): string | undefined {
  if (typeof others !== 'boolean') return undefined;
  return others ? 'yes' : 'no';
}

function dataTypeOf({ type, format }: JsonObject): string {
  if (type === 'string' && format === 'date-time') return 'date time';
  if (type === undefined) return 'any';
  return isList(type) ? type.join(', ') : String(type);
}

/** Characters that have a meaning in a regular expression. */
const SPECIAL = /[\\^$.*+?()[\]{}]/;

function permittedOf({ enum: values, pattern }: JsonObject): { readonly permitted?: string } {
  if (values !== undefined && isList(values)) return { permitted: values.map(String).join('|') };
  return typeof pattern === 'string' ? { permitted: pattern } : {};
}

/** Reads a table of either product. */
export function* readCsvPlan(text: string): ReadingSteps {
  const { rows, unknown, faults } = readRows(text);
  if (faults.length > 0) return { contracts: [], notes: [], faults };
  const notes = unknown.map((header) => ({
    path: 'line 1',
    message: `the column \`${header}\` is left out`,
  }));
  const read = yield* readTable(rows);
  return { ...read, notes: [...notes, ...read.notes] };
}

/** One event as described by its rows. */
interface EventTable {
  readonly location: string;
  /** Undefined for a type that is none: its rows are left out. */
  readonly type: EventType | undefined;
  readonly name: string;
  description: string | undefined;
  labels: JsonObject;
  readonly root: Field;
}

/** A property, or the properties of an event together. */
interface Field {
  row: Row | undefined;
  readonly members: Map<string, Field>;
}

/** The faults found so far, and the parts that were left out. */
interface Remarks {
  readonly faults: PlanRemark[];
  readonly notes: PlanRemark[];
}

function* readTable(rows: readonly Row[]): ReadingSteps {
  const [faults, notes]: [PlanRemark[], PlanRemark[]] = [[], []];
  const remarks = { faults, notes };
  const events = new Map<string, EventTable>();
  let last: EventTable | undefined;
  for (const row of rows) {
    last = eventOf(row, last, events, notes);
    addRow(row, last, faults);
    yield;
  }
  if (events.size > MAX_PLAN_CONTRACTS) return tooMany('', MAX_PLAN_CONTRACTS);
  const contracts: ImportedContract[] = [];
  for (const { location, type, name, description, labels, root } of events.values()) {
    if (type === undefined) continue;
    const lost: string[] = [];
    const read = root.row?.schema === undefined ? objectSchema(root, remarks) : schemaCell(root, remarks);
    const schema = mended(read, lost);
    for (const what of lost) notes.push({ path: location, message: leftOut(what) });
    contracts.push({
      location,
      event_type: type,
      event_name: name,
      description: description ?? null,
      schema_definition: Object.keys(labels).length === 0 ? schema : { ...schema, 'x-labels': labels },
    });
    yield;
  }
  return { contracts, notes, faults };
}

/** The event of a row; one without a name belongs to the event of the row before it, if it describes a property. */
function eventOf(
  row: Row,
  last: EventTable | undefined,
  events: Map<string, EventTable>,
  notes: PlanRemark[],
): EventTable {
  if (row.event === undefined && row.type === undefined && row.property !== undefined && last !== undefined)
    return last;
  const word = (row.type ?? 'track').trim().toLowerCase();
  const type = EVENT_TYPES.find((known) => known === word);
  const name = type === undefined || hasName(type) ? (row.event ?? '') : '';
  const key = `${word} ${name}`;
  const known = events.get(key);
  if (known !== undefined) return known;
  if (type === undefined)
    notes.push({
      path: `line ${row.line}`,
      message: `is left out: its event type ${JSON.stringify(row.type)} is none of ${EVENT_TYPES.join(', ')}`,
    });
  const made: EventTable = {
    location: `line ${row.line}`,
    type,
    name,
    description: undefined,
    labels: {},
    root: { row: undefined, members: new Map() },
  };
  events.set(key, made);
  return made;
}

const MAX_PATH = 32;

function addRow(row: Row, event: EventTable, faults: PlanRemark[]): undefined {
  const fault = (message: string) => void faults.push({ path: `line ${row.line}`, message });
  event.description ??= row.eventDescription;
  const labels = labelsIn(row.labels ?? '');
  event.labels = { ...event.labels, ...labels };
  const parts = row.property === undefined ? [] : partsOf(row.property);
  const names = [...parts.map(unescapedName), ...Object.keys(labels)];
  if (names.includes('__proto__')) return fault('holds the key __proto__');
  if (parts.length > MAX_PATH) return fault(`has a property nested more than ${MAX_PATH} deep`);
  if (parts.includes('') && row.property !== undefined && parts.length > 1)
    return fault('has a property with an empty part in its path');
  let field = event.root;
  for (const part of parts) {
    const inner = field.members.get(part) ?? { row: undefined, members: new Map() };
    field.members.set(part, inner);
    field = inner;
  }
  if (field.row !== undefined) return fault(`describes the same as line ${field.row.line}`);
  field.row = row;
}

function labelsIn(cell: string): JsonObject {
  const pairs = cell.split(',').flatMap((label): [string, string][] => {
    const [key = '', ...value] = label.split(':');
    return key.trim() === '' ? [] : [[key.trim(), value.join(':').trim()]];
  });
  return Object.fromEntries(pairs);
}

function schemaCell({ row, members }: Field, { faults }: Remarks): JsonObject {
  const fault = (message: string) => {
    faults.push({ path: `line ${row?.line}`, message });
    return {};
  };
  if (members.size > 0) return fault('has a JSON Schema, so its properties cannot have rows of their own');
  let schema: Json;
  try {
    schema = JSON.parse(row?.schema ?? '') as Json;
  } catch {
    return fault('has a JSON Schema that is not JSON');
  }
  if (deeperThan(schema, MAX_SCHEMA_DEPTH))
    return fault(`has a JSON Schema nested more than ${MAX_SCHEMA_DEPTH} deep`);
  const refused = refusedIn(schema);
  if (refused !== undefined) return fault(`has a JSON Schema that holds ${refused}`);
  return isObject(schema) ? schema : fault('has a JSON Schema that is not an object');
}

/** Parts that a body of JSON may not hold either: a plan exported with them could not be imported. */
function refusedIn(value: Json): string | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : 'a number that is too large';
  if (typeof value === 'string') return value.isWellFormed() ? undefined : 'half of a surrogate pair';
  if (typeof value !== 'object' || value === null) return undefined;
  if (Object.hasOwn(value, '__proto__')) return 'the key __proto__';
  for (const [name, member] of Object.entries(value)) {
    const refused = refusedIn(name) ?? refusedIn(member);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

function objectSchema({ row, members }: Field, remarks: Remarks): JsonObject {
  const others = row?.others === undefined ? undefined : isYes(row.others);
  const rest = others === undefined ? {} : { additionalProperties: others };
  if (members.size === 0) return rest;
  const named = [...members].map(([part, field]) => [unescapedName(part), field] as const);
  const required = named.filter(([, field]) => isYes(field.row?.required)).map(([name]) => name);
  const properties = named.map(([name, field]): [string, Json] => [name, fieldSchema(field, remarks)]);
  return {
    properties: Object.fromEntries(properties),
    ...(required.length === 0 ? {} : { required }),
    ...rest,
  };
}

function isYes(cell: string | undefined): boolean {
  return cell !== undefined && /^\s*(required|true|yes|y|x|1)\s*$/i.test(cell);
}

/** Data types in small letters and without spaces; `typeOfWord` knows others. */
const TYPES: ReadonlySet<string> = new Set([
  ...['null', 'boolean', 'integer', 'number', 'string', 'object', 'array'],
]);

function fieldSchema(field: Field, remarks: Remarks): JsonObject {
  const { row, members } = field;
  if (row?.schema !== undefined) return schemaCell(field, remarks);
  const fault = (message: string) => void remarks.faults.push({ path: `line ${row?.line}`, message });
  const items = members.get('$');
  const named = new Map([...members].filter(([name]) => name !== '$'));
  const types = typesIn(row?.dataType, items === undefined ? (named.size > 0 ? 'object' : 'any') : 'array');
  if (named.size > 0 && !types.includes('object'))
    fault('has properties of its own, so its data type must be object');
  if (items !== undefined && !types.includes('array'))
    fault('has items of its own, so its data type must be array');
  const known = types.map((word): JsonObject | undefined =>
    TYPES.has(word) ? { type: word } : word === 'any' ? {} : typeOfWord(word),
  );
  if (known.includes(undefined))
    remarks.notes.push({
      path: `line ${row?.line}`,
      message: `the data type ${JSON.stringify(row?.dataType)} is left out: it is not known`,
    });
  const several = known.map((one) => one?.type);
  return {
    ...(known.length === 1 ? known[0] : {}),
    ...(known.length > 1 && several.every((type) => type !== undefined) ? { type: several } : {}),
    ...(row?.propertyDescription === undefined ? {} : { description: row.propertyDescription }),
    ...permitted(row?.permitted),
    ...objectSchema({ row, members: named }, remarks),
    ...(items === undefined ? {} : { items: fieldSchema(items, remarks) }),
  };
}

function typesIn(cell: string | undefined, fallback: string): readonly string[] {
  if (cell === undefined) return [fallback];
  return cell.split(/[,|]/).map((word) => word.toLowerCase().replaceAll(/[\s_-]/g, ''));
}

/** Alternatives without special characters are a closed set; anything else is a regular expression. */
function permitted(cell: string | undefined): JsonObject {
  if (cell === undefined) return {};
  return SPECIAL.test(cell) ? { pattern: cell } : { enum: cell.split('|') };
}

/** The names in a path. `.` separates them, `$` stands for the items of a list; a backslash escapes both. */
function partsOf(path: string): readonly string[] {
  const parts: string[] = [];
  let part = '';
  const normal = path.replaceAll(/(?<!\\)\[\]/g, '.$');
  for (let at = 0; at < normal.length; at++) {
    const character = normal[at] ?? '';
    if (character === '\\') part += character + (normal[++at] ?? '');
    else if (character === '.') {
      parts.push(part);
      part = '';
    } else part += character;
  }
  return [...parts, part];
}

function escapedName(name: string): string {
  return name.replaceAll(/[\\.$[]/g, (character) => `\\${character}`);
}

function unescapedName(part: string): string {
  return part.replaceAll(/\\(.)/gsu, '$1');
}

/** The columns of a plan as a table. A row without a property describes its event. */
const COLUMNS = [
  'type',
  'event',
  'eventDescription',
  'labels',
  'property',
  'propertyDescription',
  'required',
  'dataType',
  'permitted',
  'others',
  'schema',
] as const;
type Column = (typeof COLUMNS)[number];

type Row = Readonly<Partial<Record<Column, string>>> & { readonly line: number };

type CsvForm = 'segment' | 'rudderstack';

/** Headers of each product. RudderStack's spreadsheet says Rule Type and Req'd, Segment's editor Status and Data Type. */
const HEADERS: Readonly<Record<CsvForm, Readonly<Record<Column, string>>>> = {
  segment: {
    type: 'Event Type',
    event: 'Event Name',
    eventDescription: 'Event Description',
    labels: 'Labels',
    property: 'Property Name',
    propertyDescription: 'Property Description',
    required: 'Status',
    dataType: 'Data Type',
    permitted: 'Permitted Values',
    others: 'Additional Properties',
    schema: 'JSON Schema',
  },
  rudderstack: {
    type: 'Rule Type',
    event: 'Event Name',
    eventDescription: 'Event Description',
    labels: 'Labels',
    property: 'Property Name',
    propertyDescription: 'Property Description',
    required: "Req'd",
    dataType: 'Property Type',
    permitted: 'Allowed Values',
    others: 'Additional Properties',
    schema: 'JSON Schema',
  },
};

/** Headers in small letters and without other characters. */
const ALIASES: ReadonlyMap<string, Column | 'description'> = new Map<string, Column | 'description'>([
  ...Object.values(HEADERS).flatMap((headers) =>
    COLUMNS.map((column) => [plain(headers[column]), column] as const),
  ),
  ['event', 'event'],
  ['rulename', 'event'],
  ['trackevent', 'event'],
  ['calltype', 'type'],
  ['property', 'property'],
  ['propertykey', 'property'],
  ['trait', 'property'],
  ['traitname', 'property'],
  ['traitdescription', 'propertyDescription'],
  ['description', 'description'],
  ['required', 'required'],
  ['isrequired', 'required'],
  ['propertystatus', 'required'],
  ['type', 'dataType'],
  ['propertydatatype', 'dataType'],
  ['traittype', 'dataType'],
  ['regex', 'permitted'],
  ['pattern', 'permitted'],
  ['enum', 'permitted'],
  ['enumvalues', 'permitted'],
  ['eventlabels', 'labels'],
  ['allowunplanned', 'others'],
]);

function plain(header: string): string {
  return header.toLowerCase().replaceAll(/[^a-z]/g, '');
}

const MAX_ROWS = 50_000;

/** Reads a table by its headers, whose order does not matter. Columns of other names are reported in `unknown`. */
function readRows(text: string): {
  readonly rows: readonly Row[];
  readonly unknown: readonly string[];
  readonly faults: readonly PlanRemark[];
} {
  const failed = (path: string, message: string) => ({ rows: [], unknown: [], faults: [{ path, message }] });
  let records: readonly { readonly record: readonly string[]; readonly info: { readonly lines: number } }[];
  try {
    records = parse(text, {
      bom: true,
      info: true,
      relax_column_count: true,
      skip_empty_lines: true,
      to: MAX_ROWS + 2,
    }) as unknown as typeof records;
  } catch (error) {
    const { lines, message } = error as CsvError & { readonly lines?: number };
    return failed(`line ${lines ?? 1}`, `is not CSV: ${message}`);
  }
  const [head, ...body] = records;
  if (body.length > MAX_ROWS) return failed('', `must have at most ${MAX_ROWS} rows`);
  const named = (head?.record ?? []).map((header) => ALIASES.get(plain(header)));
  const unknown = (head?.record ?? []).filter(
    (header, at) => named[at] === undefined && header.trim() !== '',
  );
  if (!named.includes('event') || !named.includes('property'))
    return failed('line 1', 'must name the columns `Event Name` and `Property Name`');
  const twice = named.find((column, at) => column !== undefined && named.indexOf(column) !== at);
  if (twice !== undefined) return failed('line 1', `names two columns for the same (${twice})`);
  return { rows: body.map(({ record, info }) => rowOf(record, named, info.lines)), unknown, faults: [] };
}

function rowOf(
  record: readonly string[],
  named: readonly (Column | 'description' | undefined)[],
  line: number,
): Row {
  const cells: Partial<Record<Column | 'description', string>> = {};
  named.forEach((column, at) => {
    const cell = unescaped(record[at] ?? '');
    if (column !== undefined && cell !== '') cells[column] = cell;
  });
  const { description, ...row } = cells;
  if (description === undefined) return { ...row, line };
  return {
    ...row,
    [row.property === undefined ? 'eventDescription' : 'propertyDescription']: description,
    line,
  };
}

/** The first line of a table, with the headers of a product. */
export function headLine(form: CsvForm): string {
  return lineOf(COLUMNS.map((column) => HEADERS[form][column]));
}

function writeRows(rows: readonly Omit<Row, 'line'>[]): string {
  return rows.map((row) => lineOf(COLUMNS.map((column) => escaped(row[column] ?? '')))).join('');
}

function lineOf(cells: readonly string[]): string {
  return `${cells.map(quoted).join(',')}\r\n`;
}

function quoted(cell: string): string {
  return /[",\r\n]|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

/** Spreadsheets take a cell that begins like this for a formula; an apostrophe before it makes it a text. */
const FORMULA = /^'*[=+\-@\t\r]/;

function escaped(cell: string): string {
  return FORMULA.test(cell) ? `'${cell}` : cell;
}

function unescaped(cell: string): string {
  return cell.startsWith("'") && FORMULA.test(cell) ? cell.slice(1) : cell;
}
