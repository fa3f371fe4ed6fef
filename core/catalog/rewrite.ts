import { createHash } from 'node:crypto';
import type { EventLog, LogEntry } from '../log/event-log.ts';
import { TOPIC } from '../log/topics.ts';
import { messageOf, TributaryError, Unavailable } from '../primitives/errors.ts';
import type { Fact } from './facts.ts';
import { UnknownFact } from './fold/fold.ts';
import type { CatalogState } from './fold/state.ts';
import { type CatalogRow, RowsReader } from './rows.ts';

/**
 * What a rewrite puts between the facts of the catalog topic: the state at the offset of `begun` as rows, so that
 * everything below that offset may be dropped. To a state each of them is nothing: who has one goes on with it.
 *
 * `rewrite` is an id of its own, as several may stand in the topic, finished or not. Version 1 is frozen, and so is the
 * form of its rows: where facts were dropped, there is nothing else to read. Another form gets another version, and this
 * one is read on.
 */
export type RewriteRecord = RewriteBegun | RewriteRows | RewriteEnded;

export interface RewriteBegun {
  readonly v: 1;
  readonly type: 'catalog.rewrite_begun';
  readonly rewrite: string;
  /** As of a fact. */
  readonly by: string;
  /** ISO 8601 */
  readonly at: string;
}

/** A piece of the rows' text, cut anywhere: a row may be larger than a record. */
export interface RewriteRows {
  readonly v: 1;
  readonly type: 'catalog.rewrite_rows';
  readonly rewrite: string;
  /** 0, 1, 2, ... */
  readonly part: number;
  readonly text: string;
}

export interface RewriteEnded {
  readonly v: 1;
  readonly type: 'catalog.rewrite_ended';
  readonly rewrite: string;
  readonly parts: number;
  /** Of the whole text, hex. */
  readonly sha256: string;
}

/** One entry of the catalog topic. */
export type CatalogEntry = Fact | RewriteRecord;

/** Facts are missing from the catalog, and no rewrite stands in their place: no state can be made of the rest. */
export class CatalogGap extends TributaryError {
  readonly code = 'catalog_gap';
  readonly retryable = false;
}

/** Characters of a piece. JSON text takes three bytes a character at most, also inside of JSON: below 1 MiB. */
const PIECE_CHARACTERS = 256 * 1024;

const TYPES = ['catalog.rewrite_begun', 'catalog.rewrite_rows', 'catalog.rewrite_ended'];

/** Throws `UnknownFact` for a record of a rewrite in a form that this release does not know. */
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

/** The digest that a rewrite of these rows ends with: of two states with one digest nobody can tell which is which. */
export function digestOfRows(rows: readonly CatalogRow[]): string {
  const digest = createHash('sha256');
  for (const text of piecesOf(rows)) digest.update(text);
  return digest.digest('hex');
}

/** Lines of JSON, a row each, in pieces. */
function* piecesOf(rows: readonly CatalogRow[]): Generator<string> {
  let waiting = '';
  for (const row of rows) {
    waiting += `${JSON.stringify(row)}\n`;
    while (waiting.length >= PIECE_CHARACTERS) {
      // A pair of surrogates stays together, as its digest is taken of UTF-8.
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

/** Makes a state of the rows of one rewrite, from the entries of the topic in order, whatever stands between them. */
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
   * The state at the offset of `begun`, once its last record came. `CatalogGap` where the pieces are not what was
   * written, or hold what is no row.
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
    // An append that was repeated by the log's client may stand there twice.
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

/** A state made of rows: what comes from `position` on is still to be applied. */
export interface Restored {
  readonly state: CatalogState;
  /** The offset of the `begun` whose rows these are. */
  readonly position: number;
}

/**
 * The state of the rows of the rewrite that begins at `offset`, for who finds that the log keeps nothing right below it.
 * Where its records are cut by a hole themselves, as a drop of a later rewrite did not come to its end, the rows are
 * those of the rewrite that begins behind the hole. Unfinished rewrites never stand behind one: a drop comes after the
 * end.
 *
 * Errors: `CatalogGap` where no finished rewrite begins there, or one that cannot be read, so that facts are missing;
 * `UnknownFact` for one of a form that this release does not know; `Unavailable` when the log does not answer.
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
        // What was dropped up to here has its rows behind the end that was asked for before.
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

/** Undefined for a fact. */
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
