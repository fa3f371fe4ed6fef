import {
  type CanonicalEvent,
  type Contract,
  type ContractVerdict,
  EventLoopYielder,
  eventName,
  MAX_EVENTS_A_TASK,
  Unavailable,
} from '@tributary/core';
import type { GatewayDependencies } from '../dependencies.ts';
import { FairSemaphore } from '../limits/fair-semaphore.ts';
import type { BatchEvent, ReadBatch, RejectedItem } from './batch.ts';

export type ContractDependencies = Pick<GatewayDependencies, 'catalog' | 'contracts' | 'evaluateLight'>;

/** The contract that is in force now for an event; undefined when there is none. */
export function contractFor(
  event: CanonicalEvent,
  { catalog }: Pick<GatewayDependencies, 'catalog'>,
): Contract | undefined {
  return catalog.state.contractAt(event.workspace_id, event.type, eventName(event), catalog.position);
}

/**
 * Evaluates a contract on an event: on this thread, or on a contract worker when compiling the contract would block the
 * event loop. `Overloaded` when too many evaluations of the workspace wait for a worker.
 */
export async function evaluateContract(
  contract: Contract,
  event: CanonicalEvent,
  { contracts, evaluateLight }: Omit<ContractDependencies, 'catalog'>,
  disconnected?: AbortSignal,
): Promise<ContractVerdict> {
  const verdict = evaluateLight(contract, event);
  if (verdict !== undefined) return verdict;
  const options = disconnected === undefined ? {} : { disconnected };
  const [answer] = await contracts.evaluate(contract, [event], options);
  if (answer === undefined) throw new Unavailable('no verdict on the event');
  return answer;
}

/** One batch at a time, so that all together block the event loop no longer than one. Connections bound how many wait. */
const CONCURRENCY = {
  concurrency: 1,
  maxWaiting: Number.POSITIVE_INFINITY,
  maxWaitingPerOwner: Number.POSITIVE_INFINITY,
  retryAfterSeconds: 1,
};

/**
 * Moves the events that their contract blocks to the rejected items.
 *
 * Errors: 429 when the client disconnects before all events are evaluated; `Overloaded` when too many evaluations of the
 * workspace wait for a contract worker.
 */
type BatchContractCheck = (
  batch: ReadBatch,
  workspaceId: string,
  disconnected: AbortSignal,
) => Promise<ReadBatch>;

/**
 * A contract may take some ms for an event and a batch has thousands, so a batch is evaluated for some ms at a time, in
 * turn with other batches, and other requests are served in between. Contracts that would block the event loop to compile
 * are left to the contract workers.
 */
export function createBatchContractCheck(dependencies: ContractDependencies): BatchContractCheck {
  const semaphore = new FairSemaphore(CONCURRENCY);
  const thread = new EventLoopYielder(() => performance.now());
  return async (batch, workspaceId, disconnected) => {
    const blocked = new Map<BatchEvent, RejectedItem>();
    const forWorkers = new Map<Contract, BatchEvent[]>();
    const take = (shaped: BatchEvent, { outcome, violations }: ContractVerdict) => {
      if (outcome !== 'rejected') return;
      const details = violations.map(({ path, message }) => ({ path, message }));
      blocked.set(shaped, { index: shaped.index, error: 'event blocked', details });
    };
    const evaluate = (shaped: BatchEvent) => {
      const contract = contractFor(shaped.event, dependencies);
      if (contract === undefined) return;
      const verdict = dependencies.evaluateLight(contract, shaped.event);
      if (verdict !== undefined) take(shaped, verdict);
      else {
        const others = forWorkers.get(contract);
        if (others === undefined) forWorkers.set(contract, [shaped]);
        else others.push(shaped);
      }
    };
    const remaining = batch.events.values();
    let next = remaining.next();
    const evaluateSome = async () => {
      for (; next.done !== true; next = remaining.next()) {
        if (thread.isYieldDue) return thread.yield();
        evaluate(next.value);
      }
    };
    while (next.done !== true) await semaphore.run(workspaceId, disconnected, evaluateSome);
    for (const [contract, events] of forWorkers) {
      for (let at = 0; at < events.length; at += MAX_EVENTS_A_TASK) {
        const some = events.slice(at, at + MAX_EVENTS_A_TASK);
        const verdicts = await dependencies.contracts.evaluate(
          contract,
          some.map(({ event }) => event),
          { disconnected },
        );
        for (const [n, verdict] of verdicts.entries()) {
          const shaped = some[n];
          if (shaped !== undefined) take(shaped, verdict);
        }
      }
    }
    return {
      events: batch.events.filter((shaped) => !blocked.has(shaped)),
      rejected: [...batch.rejected, ...blocked.values()].toSorted((a, b) => a.index - b.index),
    };
  };
}
