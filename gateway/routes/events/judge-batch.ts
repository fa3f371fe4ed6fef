import { HeldThread } from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';
import { Turns } from '../../http/turns.ts';
import type { BatchEvent, ReadBatch, RejectedItem } from './batch.ts';
import { judge } from './verdict.ts';

/** One at a time: all batches together hold the thread no longer than one does. Connections bound how many wait. */
const TURNS = {
  atATime: 1,
  waiting: Number.POSITIVE_INFINITY,
  waitingEach: Number.POSITIVE_INFINITY,
  retryAfterSeconds: 1,
};

/** Moves what its contract blocks to the rejected. Rejects where the caller is `gone` before all was judged. */
type BatchJudge = (read: ReadBatch, workspaceId: string, gone: AbortSignal) => Promise<ReadBatch>;

/**
 * A contract may take some ms for an event and a batch has thousands, so some ms of it are judged at a time, in turn
 * with other batches, and everybody else is answered in between.
 */
export function createBatchJudge(
  dependencies: Pick<GatewayDependencies, 'catalog' | 'contracts'>,
): BatchJudge {
  const turns = new Turns(TURNS);
  const thread = new HeldThread(() => performance.now());
  return async (read, workspaceId, gone) => {
    const events: BatchEvent[] = [];
    const blocked: RejectedItem[] = [];
    const judgeOne = (shaped: BatchEvent) => {
      const verdict = judge(shaped.event, dependencies);
      if (verdict?.outcome !== 'rejected') events.push(shaped);
      else {
        const details = verdict.breaches.map(({ path, message }) => ({ path, message }));
        blocked.push({ index: shaped.index, error: 'event blocked', details });
      }
    };
    const toJudge = read.events.values();
    let next = toJudge.next();
    const judgeSome = async () => {
      for (; next.done !== true; next = toJudge.next()) {
        if (thread.isDueToRest) return thread.rest();
        judgeOne(next.value);
      }
    };
    while (next.done !== true) await turns.take(workspaceId, gone, judgeSome);
    return { events, rejected: [...read.rejected, ...blocked].toSorted((a, b) => a.index - b.index) };
  };
}
