import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type CatalogEntry,
  type CatalogRow,
  type CatalogState,
  type EventLog,
  FOLD_VERSION,
  hasCode,
  isRewriteRecord,
  type Logger,
  messageOf,
  RowsReader,
  rowsOf,
  TOPIC,
} from '@tributary/core';

export interface SnapshotOptions {
  /** May be shared by the processes of one installation. */
  readonly file: string;
  /** Interval at which the file is written if there are new facts, ms. Default 10 minutes. */
  readonly everyMs?: number;
  /** How long the log keeps events: contract versions that were replaced before that are left out. */
  readonly retentionMs: number;
}

/** The content of a snapshot. */
export interface SnapshotContent {
  readonly state: CatalogState;
  readonly position: number;
  /** The last folded fact. */
  readonly last: FactText | undefined;
}

export interface FactText {
  readonly offset: number;
  readonly text: string;
}

const DEFAULT_EVERY_MS = 600_000;

/**
 * The snapshot file of a catalog, which a start reads instead of all facts. The log remains the source of truth: a file that
 * is damaged, of another release, or of another log is ignored with a warning. Errors of the file never fail the caller.
 */
export class Snapshots {
  readonly #options: SnapshotOptions;
  readonly #logger: Logger;
  readonly #content: () => SnapshotContent | undefined;
  readonly #timer: NodeJS.Timeout;
  /** The position of the file, as far as this process knows. */
  #written = -1;
  #writing: Promise<void> = Promise.resolve();

  /** `content` is called for each snapshot; undefined when there is nothing to write. */
  constructor(options: SnapshotOptions, logger: Logger, content: () => SnapshotContent | undefined) {
    this.#options = options;
    this.#logger = logger;
    this.#content = content;
    this.#timer = setInterval(() => void this.write(), options.everyMs ?? DEFAULT_EVERY_MS).unref();
  }

  /** The snapshot to begin with; undefined to begin with the first fact. `Unavailable` when the log does not answer. */
  async load(log: Pick<EventLog, 'read' | 'end' | 'first'>): Promise<Snapshot | undefined> {
    const { file } = this.#options;
    const startedAt = performance.now();
    const found = await this.#read();
    if (found === undefined) return undefined;
    if (await coversLostBeginning(log, found)) {
      this.#logger.error(
        { file, position: found.position },
        'the catalog begins from its snapshot, as its topic has lost the earlier facts: correct the retention of the topic (`tributary topics`), then write the state into it with `tributary catalog rewrite`',
      );
      this.#written = found.position;
      return found;
    }
    if (!(await isOf(log, found))) {
      const wasDropped = found.last.offset < (await log.first(TOPIC.catalog, 0));
      const why = wasDropped ? 'its last fact was dropped meanwhile' : 'it is not of this log';
      this.#logger.warn({ file }, `the catalog snapshot is ignored: ${why}`);
      return undefined;
    }
    this.#written = found.position;
    const ms = Math.round(performance.now() - startedAt);
    this.#logger.info({ file, position: found.position, ms }, 'the catalog begins from its snapshot');
    return found;
  }

  async #read(): Promise<Snapshot | undefined> {
    const { file } = this.#options;
    try {
      const found = await readSnapshot(file);
      if (found === undefined || !('unusable' in found)) return found;
      this.#logger.warn({ file, why: found.unusable }, 'the catalog snapshot is ignored');
    } catch (error) {
      this.#logger.warn({ file, why: messageOf(error) }, 'the catalog snapshot is ignored');
    }
    return undefined;
  }

  /** Removes contract versions that apply to no kept event any more. */
  forgetEras(state: CatalogState): void {
    state.forgetEras(new Date(Date.now() - 2 * this.#options.retentionMs).toISOString());
  }

  /**
   * Writes the file if there are new facts; it may replace a newer one of another process, which only makes the next start
   * read more facts. A failure is logged, and the next interval tries again.
   */
  write(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  async #write(): Promise<void> {
    const { file } = this.#options;
    try {
      // Synchronous up to the rows, so that position, last fact and rows are consistent.
      const content = this.#content();
      if (content?.last === undefined || content.position <= this.#written) return;
      const { state, position, last } = content;
      this.forgetEras(state);
      const rows = rowsOf(state);
      const sha256 = digestOf(last.text);
      await writeSnapshot(
        file,
        { fold: FOLD_VERSION, position, last: { offset: last.offset, sha256 } },
        rows,
      );
      this.#written = position;
    } catch (error) {
      this.#logger.warn(
        { file, error: messageOf(error) },
        'the catalog snapshot was not written; the next interval tries again',
      );
    }
  }

  /** Writes the last snapshot. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.write();
  }
}

/** Whether the log holds the last fact of the snapshot at its offset. */
async function isOf(log: Pick<EventLog, 'read' | 'end'>, { position, last }: Snapshot): Promise<boolean> {
  if ((await log.end(TOPIC.catalog, 0)) < position) return false;
  const { entries } = await log.read(TOPIC.catalog, 0, last.offset, { maxBytes: 1 });
  const [entry] = entries;
  return entry?.position.offset === last.offset && digestOf(entry.value) === last.sha256;
}

/**
 * Whether the log has lost facts that the snapshot contains, and none after it: the topic's retention deleted them, and only
 * the snapshot has them. A log that begins with a rewrite dropped them on purpose, and has the rows instead.
 */
async function coversLostBeginning(
  log: Pick<EventLog, 'read' | 'end' | 'first'>,
  { position, last }: Snapshot,
): Promise<boolean> {
  const first = await log.first(TOPIC.catalog, 0);
  if (last.offset >= first || position < first || (await log.end(TOPIC.catalog, 0)) < position) return false;
  const { entries } = await log.read(TOPIC.catalog, 0, first, { maxBytes: 1 });
  const [entry] = entries;
  return entry === undefined || !isRewriteRecord(JSON.parse(entry.value) as CatalogEntry);
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

const FORMAT = 'tributary-catalog-1';
/** Size of one line of rows: written and read without yielding to the event loop. */
const LINE_BYTES = 256 * 1024;
/** Age at which an unfinished file is removed as the remains of a killed process, ms. */
const ABANDONED_AFTER_MS = 3_600_000;
const NEWLINE = 0x0a;

/** The position of a snapshot, and the data to verify that it is of a given log. */
interface SnapshotHeader {
  /** Version of the fold that wrote it. */
  readonly fold: number;
  readonly position: number;
  /** Offset and SHA-256 of the last fact below the position. */
  readonly last: { readonly offset: number; readonly sha256: string };
}

interface Snapshot extends SnapshotHeader {
  readonly state: CatalogState;
}

/** Why an existing file cannot be used. */
interface UnusableSnapshot {
  readonly unusable: string;
}

/**
 * Writes a temporary file and renames it, so that readers see either the old file or the complete new one. Yields to the
 * event loop between lines. Lines of JSON: a header, rows, and the SHA-256 of all lines above.
 */
async function writeSnapshot(
  file: string,
  header: SnapshotHeader,
  rows: readonly CatalogRow[],
): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await removeAbandoned(file);
  const draft = `${file}.${randomUUID()}`;
  try {
    const handle = await open(draft, 'wx', 0o600);
    try {
      const hash = createHash('sha256');
      for (const line of linesOf(header, rows)) {
        hash.update(line);
        await handle.write(line);
        await nextTurn();
      }
      await handle.write(`${JSON.stringify({ sha256: hash.digest('hex') })}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  await syncFolder(dirname(file));
}

function* linesOf(header: SnapshotHeader, rows: readonly CatalogRow[]): Generator<string> {
  yield `${JSON.stringify({ format: FORMAT, ...header })}\n`;
  let texts: string[] = [];
  let bytes = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    texts.push(text);
    bytes += text.length;
    if (bytes < LINE_BYTES) continue;
    yield `[${texts.join(',')}]\n`;
    [texts, bytes] = [[], 0];
  }
  if (texts.length > 0) yield `[${texts.join(',')}]\n`;
}

/** The snapshot of a file; undefined when there is none. An incomplete file, or one of another fold, is unusable. */
async function readSnapshot(file: string): Promise<Snapshot | UnusableSnapshot | undefined> {
  const bytes = await ifExists(readFile(file));
  if (bytes === undefined) return undefined;
  const endOfRows = bytes.lastIndexOf(NEWLINE, bytes.length - 2) + 1;
  const written = parsed(bytes.subarray(endOfRows)) as { sha256?: unknown } | undefined;
  const isComplete =
    written?.sha256 === createHash('sha256').update(bytes.subarray(0, endOfRows)).digest('hex');
  if (!isComplete) return { unusable: 'it is damaged or incomplete' };
  const lines = linesIn(bytes.subarray(0, endOfRows));
  const header = parsed(lines.next().value ?? Buffer.alloc(0)) as
    | (SnapshotHeader & { format?: unknown })
    | undefined;
  if (header?.format !== FORMAT || header.fold !== FOLD_VERSION)
    return { unusable: 'another release of Tributary wrote it' };
  const reader = new RowsReader();
  try {
    for (const line of lines) {
      for (const row of JSON.parse(line.toString('utf8')) as readonly CatalogRow[]) reader.add(row);
      await nextTurn();
    }
  } catch (error) {
    return { unusable: `its rows are invalid: ${messageOf(error)}` };
  }
  return { ...header, state: reader.state };
}

function* linesIn(bytes: Buffer): Generator<Buffer> {
  for (let from = 0; from < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, from);
    yield bytes.subarray(from, end);
    from = end + 1;
  }
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}

async function ifExists<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Removes the file and all drafts. A process that is writing a draft fails to rename it, and tries again later. */
export async function removeSnapshots(file: string): Promise<void> {
  for (const draft of await draftsOf(file)) await rm(draft, { force: true });
  await rm(file, { force: true });
}

async function removeAbandoned(file: string): Promise<void> {
  for (const draft of await draftsOf(file)) {
    const since = await stat(draft).catch(() => undefined);
    if (since !== undefined && Date.now() - since.mtimeMs > ABANDONED_AFTER_MS)
      await rm(draft, { force: true });
  }
}

async function draftsOf(file: string): Promise<readonly string[]> {
  const names = await ifExists(readdir(dirname(file)));
  if (names === undefined) return [];
  return names
    .filter((name) => name.startsWith(`${basename(file)}.`))
    .map((name) => join(dirname(file), name));
}

/** Makes a rename survive a power cut. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
