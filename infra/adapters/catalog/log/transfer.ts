import { createHash } from 'node:crypto';
import {
  type EventLog,
  InvalidInput,
  iso,
  type LogEntry,
  type NewEntry,
  newId,
  type RewriteBegun,
  TOPIC,
  TributaryError,
} from '@tributary/core';

/** Raised when an older release cannot import the file any more. */
const FORMAT = 1;
const PARTITION = 0;
const READ_BYTES = 512 * 1024;
/** Entries of one append, at most, and the characters of their values. */
const MAX_ENTRIES = 500;
const MAX_CHARACTERS = 512 * 1024;

/** The first line of an export. Positions of events refer to offsets of the catalog, so an import keeps them. */
interface Head {
  readonly format: number;
  readonly catalog: { readonly first: number; readonly end: number };
}

/** One record of the catalog, as a line of an export. */
interface ExportedRecord extends NewEntry {
  readonly offset: number;
}

/** The last line of an export: without it the file is incomplete. */
interface Tail {
  readonly records: number;
  /** SHA-256 of all lines before, hex. */
  readonly sha256: string;
}

/** A file or a topic that an import refuses. Nothing was appended. */
export class CatalogRefused extends TributaryError {
  readonly code = 'catalog_refused';
  readonly retryable = false;
}

/** The lines of an export, each with its line break: a head, the records from the first to the end as of now, a tail. */
export async function* exportCatalog(log: Pick<EventLog, 'read' | 'first' | 'end'>): AsyncGenerator<string> {
  const digest = createHash('sha256');
  const line = (content: object) => {
    const text = `${JSON.stringify(content)}\n`;
    digest.update(text);
    return text;
  };
  const [first, end] = [await log.first(TOPIC.catalog, PARTITION), await log.end(TOPIC.catalog, PARTITION)];
  yield line({ format: FORMAT, catalog: { first, end } } satisfies Head);
  let records = 0;
  for await (const { position, key, headers, value } of recordsOf(log, first, end)) {
    yield line({ offset: position.offset, key, headers, value } satisfies ExportedRecord);
    records++;
  }
  if (records !== end - first)
    throw new CatalogRefused('records of the catalog were dropped while it was exported: export it again');
  yield `${JSON.stringify({ records, sha256: digest.digest('hex') } satisfies Tail)}\n`;
}

async function* recordsOf(log: Pick<EventLog, 'read'>, first: number, end: number): AsyncGenerator<LogEntry> {
  for (let from = first; from < end; ) {
    const { entries, next } = await log.read(TOPIC.catalog, PARTITION, from, {
      maxBytes: READ_BYTES,
      waitMs: 1_000,
    });
    for (const entry of entries) if (entry.position.offset < end) yield entry;
    from = next;
  }
}

export interface Imported {
  /** The end of the catalog now. */
  readonly end: number;
  /** Records that this call appended; the others were there, from an import that did not end. */
  readonly appended: number;
}

/**
 * Appends an export to the topic `catalog` under the offsets that the records had. The topic must be empty, or hold a
 * beginning of the same export: killed anywhere, an import is continued by the next one. `lines` is called for each pass
 * over the file, the first of which checks it. No other process may append to the catalog meanwhile.
 */
export async function importCatalog(
  log: Pick<EventLog, 'read' | 'first' | 'end' | 'append' | 'dropBelow'>,
  lines: () => AsyncIterable<string>,
): Promise<Imported> {
  const { first, end } = await checkFile(lines());
  const stored = {
    first: await log.first(TOPIC.catalog, PARTITION),
    end: await log.end(TOPIC.catalog, PARTITION),
  };
  if (stored.end > end || (stored.end > first && stored.first !== first)) throw otherCatalog(stored.end);
  if (stored.end <= first) await pad(log, stored, first);
  else await compare(log, lines(), stored.end);
  const from = Math.max(stored.end, first);
  let batch: ExportedRecord[] = [];
  let characters = 0;
  const append = async () => {
    if (batch.length > 0) await appendAt(log, batch);
    [batch, characters] = [[], 0];
  };
  for await (const record of recordsIn(lines())) {
    if (record.offset < from) continue;
    if (batch.length >= MAX_ENTRIES || characters + record.value.length > MAX_CHARACTERS) await append();
    batch.push(record);
    characters += record.value.length;
  }
  await append();
  return { end, appended: end - from };
}

/** Reads the whole file, and compares its checksum and its offsets. */
async function checkFile(lines: AsyncIterable<string>): Promise<Head['catalog']> {
  const digest = createHash('sha256');
  let head: Head['catalog'] | undefined;
  let next = 0;
  let tail: Partial<Tail> | undefined;
  for await (const line of lines) {
    const content = parse(line);
    if (tail !== undefined) throw new CatalogRefused('the file continues after its last line');
    if (head === undefined) {
      const { format, catalog } = content as Partial<Head>;
      if (format !== FORMAT || catalog === undefined)
        throw new CatalogRefused('the file is no export of a catalog, or of a later release');
      head = catalog;
      next = catalog.first;
    } else if ('sha256' in content) tail = content as Partial<Tail>;
    else if ((content as Partial<ExportedRecord>).offset !== next++)
      throw new CatalogRefused(`the file has no record ${next - 1} where it should be`);
    if (tail === undefined) digest.update(`${line}\n`);
  }
  if (head === undefined || tail === undefined)
    throw new CatalogRefused('the file is incomplete: its last line is missing');
  if (tail.sha256 !== digest.digest('hex') || next !== head.end)
    throw new CatalogRefused('the file is damaged: its checksum is another');
  return head;
}

function parse(line: string): object {
  try {
    const content = JSON.parse(line) as unknown;
    if (typeof content === 'object' && content !== null) return content;
  } catch {
    // Reported below: a line that is cut off is as wrong as one of another form.
  }
  throw new CatalogRefused('the file is damaged: a line of it is no JSON object');
}

async function* recordsIn(lines: AsyncIterable<string>): AsyncGenerator<ExportedRecord> {
  for await (const line of lines) {
    const content = JSON.parse(line) as Partial<ExportedRecord>;
    if (content.offset !== undefined) yield content as ExportedRecord;
  }
}

function otherCatalog(end: number): CatalogRefused {
  return new CatalogRefused(
    `the topic catalog holds another catalog, up to ${end}: import into an empty one, e.g. with another TRIBUTARY_PREFIX`,
  );
}

/** Compares what the topic holds with the beginning of the file. */
async function compare(
  log: Pick<EventLog, 'read'>,
  lines: AsyncIterable<string>,
  end: number,
): Promise<void> {
  const records = recordsIn(lines);
  let stored: AsyncGenerator<LogEntry> | undefined;
  for await (const record of records) {
    if (record.offset >= end) return;
    stored ??= recordsOf(log, record.offset, end);
    const { value: entry } = (await stored.next()) as IteratorResult<LogEntry, undefined>;
    if (entry?.position.offset !== record.offset || entry.key !== record.key || entry.value !== record.value)
      throw otherCatalog(end);
  }
}

/**
 * Makes an empty topic begin at an offset: appends records that mean nothing to any reader, and drops them. They are of the
 * form of the beginning of a rewrite that never continues.
 */
async function pad(
  log: Pick<EventLog, 'read' | 'append' | 'dropBelow'>,
  stored: Head['catalog'],
  first: number,
): Promise<void> {
  for await (const { value } of recordsOf(log, stored.first, stored.end))
    if ((parse(value) as Partial<RewriteBegun>).by !== PADDING) throw otherCatalog(stored.end);
  for (let at = stored.end; at < first; at += MAX_ENTRIES) {
    const rewrite = newId();
    const record: RewriteBegun = {
      v: 1,
      type: 'catalog.rewrite_begun',
      rewrite,
      by: PADDING,
      at: iso(Date.now()),
    };
    const entry = { key: rewrite, headers: {}, value: JSON.stringify(record) };
    const count = Math.min(MAX_ENTRIES, first - at);
    await appendAt(
      log,
      Array.from({ length: count }, (_, index) => ({ ...entry, offset: at + index })),
    );
  }
  if (stored.first < first) await log.dropBelow(TOPIC.catalog, PARTITION, first);
}

const PADDING = 'operator:catalog-import';

async function appendAt(log: Pick<EventLog, 'append'>, records: readonly ExportedRecord[]): Promise<void> {
  const entries = records.map(({ key, headers, value }) => ({ key, headers, value }));
  const positions = await log.append(TOPIC.catalog, entries);
  const moved = positions.findIndex(({ offset }, index) => offset !== records[index]?.offset);
  if (moved >= 0)
    throw new InvalidInput(
      `a record was appended at ${positions[moved]?.offset} instead of ${records[moved]?.offset}: another process writes to the catalog; stop all, and import into an empty topic`,
    );
}
