import { Unavailable } from '../errors/errors.ts';
import type { EventLog } from '../log/event-log.ts';
import { TOPIC } from '../log/topics.ts';
import { type CatalogEntry, CatalogGap, isRewriteRecord, RewriteReader } from './rewrite.ts';
import type { CatalogState } from './state.ts';

const PARTITION = 0;
const READ_BYTES = 512 * 1024;

/**
 * The state at `offset`, of the rows of the rewrite that begins there; what comes from there on is still to be applied.
 * For who finds that the log keeps nothing below this offset. Unfinished rewrites are never what a log begins with: the
 * drop comes after the end.
 *
 * Errors: `CatalogGap` where no finished rewrite begins there, so that facts are missing; `UnknownFact` for one of a form
 * that this release does not know; `Unavailable` when the log does not answer, or keeps less than a moment ago.
 */
export async function restoreState(
  log: Pick<EventLog, 'read' | 'end'>,
  offset: number,
): Promise<CatalogState> {
  const end = await log.end(TOPIC.catalog, PARTITION);
  let reader: RewriteReader | undefined;
  for (let next = offset; next < end; ) {
    const read = await log.read(TOPIC.catalog, PARTITION, next, { maxBytes: READ_BYTES });
    for (const { position, value } of read.entries) {
      if (position.offset > next) throw new Unavailable(`the catalog keeps nothing of ${next} any more`);
      next = position.offset + 1;
      const entry = JSON.parse(value) as CatalogEntry;
      const isRecord = isRewriteRecord(entry);
      if (reader === undefined) {
        if (!isRecord || entry.type !== 'catalog.rewrite_begun') throw gapAt(offset);
        reader = new RewriteReader(entry);
      } else if (isRecord) {
        const state = reader.add(entry);
        if (state !== undefined) return state;
      }
    }
    if (read.entries.length === 0 && read.next <= next)
      throw new Unavailable(`the catalog cannot be read at ${next}`);
    next = Math.max(next, read.next);
  }
  throw gapAt(offset);
}

function gapAt(offset: number): CatalogGap {
  return new CatalogGap(
    `the log keeps nothing of the catalog below ${offset}, and no finished rewrite begins there: facts are missing`,
  );
}
