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
  /** The actor, as in facts. */
  readonly by: string;
  /** Stages that read the catalog: facts that they have not read are not dropped. */
  readonly stages: readonly string[];
  /** How long to wait for them, ms. */
  readonly stageTimeoutMs: number;
  /**
   * How long gateways get to read the facts before they are dropped, ms: they store no position to wait for, and answer 503
   * to a change whose fact they find dropped. Default 0.
   */
  readonly graceMs?: number;
  /** Called after each step. */
  readonly done?: (step: RewriteStep) => void;
}

/** In this order, with one `piece` per record of rows. Restarts with the first when another rewrite was faster. */
export type RewriteStep = 'begun' | 'piece' | 'ended' | 'read back' | 'awaited' | 'dropped';

/** The result of a rewrite. */
export interface Rewritten {
  /** The first offset of the log now. */
  readonly offset: number;
  readonly rows: number;
  readonly pieces: number;
  /** Number of records below the offset. */
  readonly dropped: number;
}

export interface RewriteContext extends RewriteOptions {
  readonly log: Pick<EventLog, 'read' | 'end' | 'first' | 'positionOf' | 'dropBelow'>;
  /** Appends a record, and returns its offset. */
  append(record: RewriteRecord): Promise<number>;
  /** Appends `begun`, and returns its offset and the rows of the state there. */
  begin(): Promise<{
    readonly rewrite: string;
    readonly offset: number;
    readonly rows: readonly CatalogRow[];
  }>;
}

/** A rewrite that began later dropped the records of the one that began at the offset. */
export class Superseded extends Unavailable {
  constructor(offset: number) {
    super(`another rewrite of the catalog dropped the one that began at ${offset}`);
  }
}

const PARTITION = 0;
const POLL_MS = 200;

/**
 * Writes the current state into the log as rows, and drops the facts before them, while the system runs.
 *
 * - Nothing is dropped before the rows were read back and gave the same state, and every stage has read the facts to drop.
 * - May be repeated at any time, also after a kill, and run several times at once: each rewrite is complete by itself, and an
 *   unfinished one has no effect.
 * - Restarts when another rewrite dropped its records, as that one may have been killed before it dropped all. Each restart
 *   is the success of another rewrite, so there are at most as many restarts as other rewrites.
 *
 * Errors: `Unavailable` when the log does not answer or a stage does not get far enough; a later run does all of it.
 */
export async function rewriteLog(context: RewriteContext): Promise<Rewritten> {
  // Finds a stage that is not running before anything is written.
  await stagesPast(await context.log.end(TOPIC.catalog, PARTITION), context);
  for (;;) {
    try {
      return await rewriteOnce(context);
    } catch (error) {
      if (!(error instanceof Superseded)) throw error;
    }
  }
}

async function rewriteOnce(context: RewriteContext): Promise<Rewritten> {
  const { log, done = () => {} } = context;
  const { rewrite, offset, rows } = await context.begin();
  done('begun');
  let pieces = 0;
  for (const record of rewriteRecords(rewrite, rows)) {
    await context.append(record);
    if (record.type === 'catalog.rewrite_rows') pieces++;
    done(record.type === 'catalog.rewrite_rows' ? 'piece' : 'ended');
  }
  const restored = await restoreState(log, offset);
  if (restored.position !== offset) throw new Superseded(offset);
  if (digestOfRows(rowsOf(restored.state)) !== digestOfRows(rows))
    throw new CatalogGap('the written rows give another state: nothing was dropped');
  done('read back');
  await stagesPast(offset, context);
  done('awaited');
  await sleep(context.graceMs ?? 0);
  const first = await log.first(TOPIC.catalog, PARTITION);
  await log.dropBelow(TOPIC.catalog, PARTITION, offset);
  done('dropped');
  return { offset, rows: rows.length, pieces, dropped: Math.max(0, offset - first) };
}

/** Waits until every stage has read the catalog up to the offset. Retries while the log does not answer. */
async function stagesPast(offset: number, { log, stages, stageTimeoutMs }: RewriteContext): Promise<void> {
  const deadline = performance.now() + stageTimeoutMs;
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
          `the stage ${stage} is at ${position} of the catalog, not yet at ${offset}: nothing was dropped; start the stage if it is not running, and repeat the rewrite`,
        );
      await sleep(POLL_MS);
    }
  }
}
