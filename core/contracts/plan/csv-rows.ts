import { type CsvError, parse } from 'csv-parse/sync';
import type { PlanRemark } from './tracking-plan.ts';

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
export type Column = (typeof COLUMNS)[number];

export type Row = Readonly<Partial<Record<Column, string>>> & { readonly line: number };

export type CsvForm = 'segment' | 'rudderstack';

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

/** Rows of a table at most. */
const MAX_ROWS = 50_000;

/** Reads a table by its headers, whose order does not matter. Columns of other names are reported in `unknown`. */
export function readRows(text: string): {
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

export function writeRows(rows: readonly Omit<Row, 'line'>[]): string {
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
