import { createHash } from 'node:crypto';
import type { EventLog, LogEntry } from '../log/event-log.ts';
import { TOPIC } from '../log/topics.ts';
import { messageOf, TributaryError, Unavailable } from '../primitives/errors.ts';
import type { Fact } from './facts.ts';
import { UnknownFact } from './fold/fold.ts';
import type { CatalogState } from './fold/state.ts';
import { type CatalogRow, RowsReader } from './rows.ts';

/**
 * The records of a rewrite, which stand between the facts of the catalog topic: the state at the offset of `begun`,
 * as rows, so that everything below that offset may be dropped. They do not change the state: a process that already
 * has it continues.
 *
 * `rewrite` is an id of its own, because several rewrites may be in the topic, finished or not. Version 1 and the
 * form of its rows are frozen: where facts were dropped, there is nothing else to read. Another form gets another
 * version, and this one stays readable.
 */
export type RewriteRecord = RewriteBegun | RewriteRows | RewriteEnded;

export interface RewriteBegun {
  readonly v: 1;
  readonly type: 'catalog.rewrite_begun';
  readonly rewrite: string;
  /** See `Fact`. */
  readonly by: string;
  /** ISO 8601 */
  readonly at: string;
}

/** A part of the rows' text, cut anywhere: a row may be larger than a record. */
interface RewriteRows {
  readonly v: 1;
  readonly type: 'catalog.rewrite_rows';
  readonly rewrite: string;
  /** 0, 1, 2, ... */
  readonly part: number;
  readonly text: string;
}

interface RewriteEnded {
  readonly v: 1;
  readonly type: 'catalog.rewrite_ended';
  readonly rewrite: string;
  readonly parts: number;
  /** SHA-256 of the whole text, hex. */
  readonly sha256: string;
}

export type CatalogEntry = Fact | RewriteRecord;

/** Facts are missing from the catalog and no rewrite replaces them, so no state can be built. */
export class CatalogGap extends TributaryError {
  readonly code = 'catalog_gap';
  readonly retryable = false;
}

/** Characters of a part. JSON text takes at most three bytes a character, also when quoted in JSON: below 1 MiB. */
const PIECE_CHARACTERS = 256 * 1024;

const TYPES = ['catalog.rewrite_begun', 'catalog.rewrite_rows', 'catalog.rewrite_ended'];

/** Throws `UnknownFact` for a rewrite record of an unknown version. */
export function isRewriteRecord(entry: CatalogEntry): entry is RewriteRecord {
  if (!TYPES.includes(entry.type)) return false;
  if (entry.v !== 1) throw new UnknownFact(entry);
  return true;
}

/** The records that follow `begun`, in order. */
export function* rewriteRecords(
  rewrite: string,
  rows: readonly CatalogRow[],
): Generator<RewriteRows | RewriteEnded> {
  const digest = createHash('sha256');
  let parts = 0;
  for (const text of piecesOf(rows)) {
    digest.update(text);
    yield { v: 1, type: 'catalog.rewrite_rows', rewrite, part: parts, text };
    parts++;
  }
  yield { v: 1, type: 'catalog.rewrite_ended', rewrite, parts, sha256: digest.digest('hex') };
}

/** The digest of a rewrite of these rows. States with equal digests are equal. */
export function digestOfRows(rows: readonly CatalogRow[]): string {
  const digest = createHash('sha256');
  for (const text of piecesOf(rows)) digest.update(text);
  return digest.digest('hex');
}

/** The rows as lines of JSON, cut into parts. */
function* piecesOf(rows: readonly CatalogRow[]): Generator<string> {
  let waiting = '';
  for (const row of rows) {
    waiting += `${JSON.stringify(row)}\n`;
    while (waiting.length >= PIECE_CHARACTERS) {
      // Keeps surrogate pairs together, because the digest is over UTF-8.
      const cut = isHighSurrogate(waiting, PIECE_CHARACTERS - 1) ? PIECE_CHARACTERS - 1 : PIECE_CHARACTERS;
      yield waiting.slice(0, cut);
      waiting = waiting.slice(cut);
    }
  }
  if (waiting !== '') yield waiting;
}

function isHighSurrogate(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800;
}

/** Builds a state from the records of one rewrite; other entries of the topic may lie between them. */
export class RewriteReader {
  readonly #begun: RewriteBegun;
  readonly #rows = new RowsReader();
  readonly #digest = createHash('sha256');
  #parts = 0;
  #line = '';

  constructor(begun: RewriteBegun) {
    this.#begun = begun;
  }

  /**
   * Returns the state at the offset of `begun` after the last record. Throws `CatalogGap` where the parts are
   * damaged.
   */
  add(entry: RewriteRecord): CatalogState | undefined {
    if (entry.rewrite !== this.#begun.rewrite) return undefined;
    if (entry.type === 'catalog.rewrite_rows') this.#addPiece(entry);
    if (entry.type !== 'catalog.rewrite_ended') return undefined;
    const isWhole = entry.parts === this.#parts && entry.sha256 === this.#digest.digest('hex');
    if (!isWhole || this.#line !== '') throw this.#damaged('its rows are not those that were written');
    return this.#rows.state;
  }

  #addPiece({ part, text }: RewriteRows): void {
    // The log's client may have repeated an append.
    if (part < this.#parts) return;
    if (part > this.#parts) throw this.#damaged(`part ${this.#parts} is missing`);
    this.#parts++;
    try {
      this.#digest.update(text);
      const lines = `${this.#line}${text}`.split('\n');
      this.#line = lines.pop() ?? '';
      for (const line of lines) this.#rows.add(JSON.parse(line) as CatalogRow);
    } catch (error) {
      throw this.#damaged(messageOf(error), { cause: error });
    }
  }

  #damaged(why: string, options?: ErrorOptions): CatalogGap {
    return new CatalogGap(
      `the rewrite ${this.#begun.rewrite} of the catalog cannot be read: ${why}`,
      options,
    );
  }
}

const PARTITION = 0;
const READ_BYTES = 512 * 1024;

/** A state built from rows. Facts from `position` on still have to be applied. */
interface Restored {
  readonly state: CatalogState;
  /** The offset of the rewrite's `begun` record. */
  readonly position: number;
}

/**
 * Restores the state from the rewrite that begins at `offset`, for a reader that finds the facts below it dropped.
 * Where a later, interrupted drop cut a hole into these records, the rewrite behind the hole is read. Unfinished
 * rewrites never follow a hole: records are dropped only after a rewrite has ended.
 *
 * Errors: `CatalogGap` where no readable finished rewrite begins there, so that facts are missing; `UnknownFact` for
 * a record of an unknown version; `Unavailable` when the log does not answer.
 */
export async function restoreState(log: Pick<EventLog, 'read' | 'end'>, offset: number): Promise<Restored> {
  let end = await log.end(TOPIC.catalog, PARTITION);
  let reader: RewriteReader | undefined;
  let begin = offset;
  for (let next = offset; next < end; ) {
    const read = await log.read(TOPIC.catalog, PARTITION, next, { maxBytes: READ_BYTES });
    for (const entry of read.entries) {
      const { position } = entry;
      if (position.offset > next) {
        // The rewrite that replaces the dropped records may lie behind the end that was read before.
        reader = undefined;
        begin = position.offset;
        end = await log.end(TOPIC.catalog, PARTITION);
      }
      next = position.offset + 1;
      const record = recordOf(entry);
      if (reader === undefined) {
        if (record?.type !== 'catalog.rewrite_begun') throw gapAt(begin);
        reader = new RewriteReader(record);
      } else if (record !== undefined) {
        const state = reader.add(record);
        if (state !== undefined) return { state, position: begin };
      }
    }
    if (read.entries.length === 0 && read.next <= next)
      throw new Unavailable(`the catalog cannot be read at ${next}`);
    next = Math.max(next, read.next);
  }
  throw gapAt(begin);
}

function recordOf({ position, value }: LogEntry): RewriteRecord | undefined {
  try {
    const entry = JSON.parse(value) as CatalogEntry;
    return isRewriteRecord(entry) ? entry : undefined;
  } catch (error) {
    if (error instanceof UnknownFact) throw error;
    throw new CatalogGap(`the catalog holds what is no fact at ${position.offset}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

function gapAt(offset: number): CatalogGap {
  return new CatalogGap(
    `the log keeps nothing of the catalog below ${offset}, and no finished rewrite begins there: facts are missing`,
  );
}
