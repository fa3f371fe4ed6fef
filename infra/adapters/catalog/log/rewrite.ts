import { setTimeout as sleep } from 'node:timers/promises';
import {
  CatalogGap,
  type CatalogRow,
  digestOfRows,
  type EventLog,
  type RewriteRecord,
  restoreState,
  rewriteRecords,
  rowsOf,
  TOPIC,
  Unavailable,
} from '@tributary/core';

export interface RewriteOptions {
  /** Who rewrites, as in facts. */
  readonly by: string;
  /** Stages that read the catalog's facts: what they have not taken yet is not dropped. */
  readonly stages: readonly string[];
  /** How long they are waited for, ms. */
  readonly patienceMs: number;
  /** Told of each step when it is done. */
  readonly done?: (step: RewriteStep) => void;
}

/** In this order; `piece` as often as there are some. From the first on again where another rewrite was quicker. */
export type RewriteStep = 'begun' | 'piece' | 'ended' | 'read back' | 'awaited' | 'dropped';

/** What became of a catalog's history. */
export interface Rewritten {
  /** Where the log begins now. */
  readonly offset: number;
  readonly rows: number;
  readonly pieces: number;
  /** Records below the offset. */
  readonly dropped: number;
}

export interface RewriteTools extends RewriteOptions {
  readonly log: Pick<EventLog, 'read' | 'end' | 'first' | 'positionOf' | 'dropBelow'>;
  /** Appends a record; answers its offset. */
  append(record: RewriteRecord): Promise<number>;
  /** Appends `begun`; answers its offset and the rows of the state there. */
  begin(): Promise<{
    readonly rewrite: string;
    readonly offset: number;
    readonly rows: readonly CatalogRow[];
  }>;
}

/** Another rewrite that began later has dropped the one that began at the offset, before it was done. */
export class Superseded extends Unavailable {
  constructor(offset: number) {
    super(`another rewrite of the catalog dropped the one that began at ${offset}`);
  }
}

const PARTITION = 0;
const ASK_EVERY_MS = 200;

/**
 * Puts the state of now into the log as rows and drops the facts it came from, beside whatever runs. Nothing is dropped
 * before the rows were read back and made the same state, and every stage has taken what is dropped. Safe to run again
 * at any time, also after being killed, and several at once: each is complete by itself, and an unfinished one is nothing.
 * One whose records another drops begins anew: that other one may be killed before all it should drop is gone. Each new
 * beginning is another's success, so there are never more of them than others.
 *
 * Errors: `Unavailable` when the log does not answer or a stage does not come so far; then what stands there stays, and
 * the next run does all of it.
 */
export async function rewriteLog(tools: RewriteTools): Promise<Rewritten> {
  // A stage that is not at work is found before anything is written.
  await stagesPast(await tools.log.end(TOPIC.catalog, PARTITION), tools);
  for (;;) {
    try {
      return await rewriteOnce(tools);
    } catch (error) {
      if (!(error instanceof Superseded)) throw error;
    }
  }
}

async function rewriteOnce(tools: RewriteTools): Promise<Rewritten> {
  const { log, done = () => {} } = tools;
  const { rewrite, offset, rows } = await tools.begin();
  done('begun');
  let pieces = 0;
  for (const record of rewriteRecords(rewrite, rows)) {
    await tools.append(record);
    if (record.type === 'catalog.rewrite_rows') pieces++;
    done(record.type === 'catalog.rewrite_rows' ? 'piece' : 'ended');
  }
  const restored = await restoreState(log, offset);
  if (restored.position !== offset) throw new Superseded(offset);
  if (digestOfRows(rowsOf(restored.state)) !== digestOfRows(rows))
    throw new CatalogGap('the rows that were written make another state: nothing was dropped');
  done('read back');
  await stagesPast(offset, tools);
  done('awaited');
  const first = await log.first(TOPIC.catalog, PARTITION);
  await log.dropBelow(TOPIC.catalog, PARTITION, offset);
  done('dropped');
  return { offset, rows: rows.length, pieces, dropped: Math.max(0, offset - first) };
}

/** A log that does not answer is asked again, as is a stage that is on its way. */
async function stagesPast(offset: number, { log, stages, patienceMs }: RewriteTools): Promise<void> {
  const deadline = performance.now() + patienceMs;
  const positionOf = async (stage: string) => (await log.positionOf(stage, TOPIC.catalog, PARTITION)) ?? 0;
  for (const stage of stages) {
    for (;;) {
      const isOver = performance.now() > deadline;
      const position = await positionOf(stage).catch((error: unknown) => {
        if (isOver || !(error instanceof Unavailable)) throw error;
        return -1;
      });
      if (position >= offset) break;
      if (isOver)
        throw new Unavailable(
          `the stage ${stage} is at ${position} of the catalog, not yet at ${offset}: nothing was dropped; run it where it is not, and this again`,
        );
      await sleep(ASK_EVERY_MS);
    }
  }
}
