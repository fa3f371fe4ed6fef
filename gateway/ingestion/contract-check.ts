import {
  type CanonicalEvent,
  type Contract,
  type ContractVerdict,
  eventName,
  organizationOf,
} from '@tributary/core';
import type { GatewayDependencies } from '../dependencies.ts';
import { tooManyRequests } from '../errors/api-error.ts';
import { PRODUCER_TURNS, TENANT_TURNS } from '../limits/turns.ts';
import type { BatchEvent, ReadBatch, RejectedItem } from './batch.ts';

export type ContractDependencies = Pick<GatewayDependencies, 'catalog' | 'contracts'>;

/** The contract that is in force now for an event; undefined when there is none. */
export function contractFor(
  event: CanonicalEvent,
  { catalog }: Pick<GatewayDependencies, 'catalog'>,
): Contract | undefined {
  return catalog.state.contractAt(event.workspace_id, event.type, eventName(event), catalog.position);
}

/** Evaluates a contract on an event, in turns of organizations. `Overloaded` when the caller disconnects before. */
export function evaluateContract(
  contract: Contract,
  event: CanonicalEvent,
  { catalog, contracts }: ContractDependencies,
  disconnected?: AbortSignal,
  turns = TENANT_TURNS,
): Promise<ContractVerdict> {
  const evaluating = function* () {
    yield* contracts.prepare(contract);
    return contracts.evaluate(contract, event);
  };
  return turns.runSteps(organizationOf(catalog.state, contract.workspace_id), evaluating(), disconnected);
}

const RETRY_AFTER_SECONDS = 1;

/**
 * Moves the events that their contract blocks to the rejected items.
 *
 * Errors: 429 when the client disconnects before all events are evaluated.
 */
type BatchContractCheck = (
  batch: ReadBatch,
  workspaceId: string,
  disconnected: AbortSignal,
) => Promise<ReadBatch>;

/**
 * A contract may take some ms for an event and a batch has thousands, so batches are evaluated in turns of organizations, and
 * other requests are served in between.
 */
export function createBatchContractCheck(dependencies: ContractDependencies): BatchContractCheck {
  return async (batch, workspaceId, disconnected) => {
    const blocked = new Map<BatchEvent, RejectedItem>();
    const evaluating = function* () {
      for (const shaped of batch.events) {
        if (disconnected.aborted) throw tooManyRequests(RETRY_AFTER_SECONDS);
        const contract = contractFor(shaped.event, dependencies);
        if (contract === undefined) continue;
        yield* dependencies.contracts.prepare(contract);
        const { outcome, violations } = dependencies.contracts.evaluate(contract, shaped.event);
        const details = violations.map(({ path, message }) => ({ path, message }));
        if (outcome === 'rejected')
          blocked.set(shaped, { index: shaped.index, error: 'event blocked', details });
        yield undefined;
      }
    };
    const owner = organizationOf(dependencies.catalog.state, workspaceId);
    await PRODUCER_TURNS.runSteps(owner, evaluating());
    return {
      events: batch.events.filter((shaped) => !blocked.has(shaped)),
      rejected: [...batch.rejected, ...blocked.values()].toSorted((a, b) => a.index - b.index),
    };
  };
}
