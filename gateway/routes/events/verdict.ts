import type { CanonicalEvent, ContractVerdict } from '@tributary/core';
import { eventName } from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';

/** What the contract of this moment says of an event; undefined when there is none. */
export function judge(
  event: CanonicalEvent,
  { catalog, contracts }: Pick<GatewayDependencies, 'catalog' | 'contracts'>,
): ContractVerdict | undefined {
  const contract = catalog.state.contractAt(
    event.workspace_id,
    event.type,
    eventName(event),
    catalog.position,
  );
  return contract === undefined ? undefined : contracts.evaluate(contract, event);
}
