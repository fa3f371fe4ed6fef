import { messageOf, Unavailable } from '../errors/errors.ts';
import type { EventLog, LogEntry } from '../log/event-log.ts';
import { TOPIC } from '../log/topics.ts';
import { UnknownFact } from './fold.ts';
import {
  type CatalogEntry,
  CatalogGap,
  isRewriteRecord,
  RewriteReader,
  type RewriteRecord,
} from './rewrite.ts';
import type { CatalogState } from './state.ts';

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
