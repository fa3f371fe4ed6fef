import { type Contract, type ContractVerdict, HeldThread, MAX_EVENTS_A_TASK } from '@tributary/core';
import { Turns } from '../../limits/fair-semaphore.ts';
import type { BatchEvent, ReadBatch, RejectedItem } from './batch.ts';
import { type ContractDependencies, contractFor } from './verdict.ts';

/** One at a time: all batches together hold the thread no longer than one does. Connections bound how many wait. */
const TURNS = {
  atATime: 1,
  waiting: Number.POSITIVE_INFINITY,
  waitingEach: Number.POSITIVE_INFINITY,
  retryAfterSeconds: 1,
};

/**
 * Moves what its contract blocks to the rejected. Rejects where the caller is `gone` before all was judged, and with
 * `Overloaded` where too many of the workspace wait for a contract worker.
 */
type BatchJudge = (read: ReadBatch, workspaceId: string, gone: AbortSignal) => Promise<ReadBatch>;

/**
 * A contract may take some ms for an event and a batch has thousands, so some ms of it are judged at a time, in turn
 * with other batches, and everybody else is answered in between. Contracts that would hold the thread to compile are left
 * to the contract workers.
 */
export function createBatchJudge(dependencies: ContractDependencies): BatchJudge {
  const turns = new Turns(TURNS);
  const thread = new HeldThread(() => performance.now());
  return async (read, workspaceId, gone) => {
    const blocked = new Map<BatchEvent, RejectedItem>();
    const heavy = new Map<Contract, BatchEvent[]>();
    const take = (shaped: BatchEvent, { outcome, breaches }: ContractVerdict) => {
      if (outcome !== 'rejected') return;
      const details = breaches.map(({ path, message }) => ({ path, message }));
      blocked.set(shaped, { index: shaped.index, error: 'event blocked', details });
    };
    const judgeOne = (shaped: BatchEvent) => {
      const contract = contractFor(shaped.event, dependencies);
      if (contract === undefined) return;
      const verdict = dependencies.evaluateLight(contract, shaped.event);
      if (verdict !== undefined) take(shaped, verdict);
      else {
        const others = heavy.get(contract);
        if (others === undefined) heavy.set(contract, [shaped]);
        else others.push(shaped);
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
    for (const [contract, events] of heavy) {
      for (let at = 0; at < events.length; at += MAX_EVENTS_A_TASK) {
        const some = events.slice(at, at + MAX_EVENTS_A_TASK);
        const verdicts = await dependencies.contracts.evaluate(
          contract,
          some.map(({ event }) => event),
          { gone },
        );
        for (const [n, verdict] of verdicts.entries()) {
          const shaped = some[n];
          if (shaped !== undefined) take(shaped, verdict);
        }
      }
    }
    return {
      events: read.events.filter((shaped) => !blocked.has(shaped)),
      rejected: [...read.rejected, ...blocked.values()].toSorted((a, b) => a.index - b.index),
    };
  };
}
