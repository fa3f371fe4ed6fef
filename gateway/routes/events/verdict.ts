import {
  type CanonicalEvent,
  type Contract,
  type ContractVerdict,
  eventName,
  Unavailable,
} from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';

export type ContractDependencies = Pick<GatewayDependencies, 'catalog' | 'contracts' | 'evaluateLight'>;

/** The contract of this moment for an event; undefined when there is none. */
export function contractFor(
  event: CanonicalEvent,
  { catalog }: Pick<GatewayDependencies, 'catalog'>,
): Contract | undefined {
  return catalog.state.contractAt(event.workspace_id, event.type, eventName(event), catalog.position);
}

/**
 * What a contract says of an event: on this thread, or on a contract worker where compiling the contract would hold
 * this one. `Overloaded` where too many of the workspace wait for a worker.
 */
export async function verdictOn(
  contract: Contract,
  event: CanonicalEvent,
  { contracts, evaluateLight }: Omit<ContractDependencies, 'catalog'>,
  gone?: AbortSignal,
): Promise<ContractVerdict> {
  const verdict = evaluateLight(contract, event);
  if (verdict !== undefined) return verdict;
  const [answer] = await contracts.evaluate(contract, [event], gone === undefined ? {} : { gone });
  if (answer === undefined) throw new Unavailable('no verdict on the event');
  return answer;
}
