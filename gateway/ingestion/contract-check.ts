import {
  type CanonicalEvent,
  type Contract,
  type ContractVerdict,
  eventName,
  MAX_EVENTS_A_TASK,
  organizationOf,
  Unavailable,
} from '@tributary/core';
import type { GatewayDependencies } from '../dependencies.ts';
import { tooManyRequests } from '../errors/api-error.ts';
import { PRODUCER_TURNS, TENANT_TURNS } from '../limits/turns.ts';
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
  { catalog, contracts, evaluateLight }: ContractDependencies,
  disconnected?: AbortSignal,
  turns = TENANT_TURNS,
): Promise<ContractVerdict> {
  const owner = organizationOf(catalog.state, contract.workspace_id);
  const verdict = await turns.run(owner, () => evaluateLight(contract, event));
  if (verdict !== undefined) return verdict;
  const options = disconnected === undefined ? {} : { disconnected };
  const [answer] = await contracts.evaluate(contract, [event], options);
  if (answer === undefined) throw new Unavailable('no verdict on the event');
  return answer;
}

const RETRY_AFTER_SECONDS = 1;

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
 * A contract may take some ms for an event and a batch has thousands, so batches are evaluated in turns of organizations, and
 * other requests are served in between. Contracts that would block the event loop to compile are left to the contract workers.
 */
export function createBatchContractCheck(dependencies: ContractDependencies): BatchContractCheck {
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
    const evaluating = function* () {
      for (const shaped of batch.events) {
        if (disconnected.aborted) throw tooManyRequests(RETRY_AFTER_SECONDS);
        evaluate(shaped);
        yield undefined;
      }
    };
    const owner = organizationOf(dependencies.catalog.state, workspaceId);
    await PRODUCER_TURNS.runSteps(owner, evaluating());
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
