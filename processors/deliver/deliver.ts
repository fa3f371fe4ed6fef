import {
  type Emission,
  type FlowStage,
  type LogEntry,
  promised,
  StoredDelivery,
  stoppedByRule,
} from '@tributary/core';
import { awaitCatalog, isAhead } from '../causality.ts';
import type { PartitionLanes } from '../partition-lanes.ts';
import { arrivedIn } from './arrival.ts';
import { closedTo, type Delivered } from './climb.ts';
import { type DeliverDependencies, QuickDelivery } from './quick-delivery.ts';
import { settle } from './settlement.ts';

/**
 * Makes the deliveries of entries. Those of a destination that is slow go on to the slow lane as they came; one that
 * takes long goes there while its call goes on. What would wait for longer than a retry topic takes goes to one.
 */
export function deliver(
  dependencies: DeliverDependencies,
  lanes: PartitionLanes,
): Pick<FlowStage, 'handle' | 'wantsMore'> {
  const quickly = { ...dependencies, lanes };
  return {
    handle(entry, context) {
      const quick = new QuickDelivery(quickly, entry, context);
      if (!isAhead(entry, dependencies.catalog)) quick.begin();
      else
        known(dependencies, entry).then(
          () => quick.begin(),
          (thrown) => context.failed(thrown),
        );
    },
    wantsMore: (topic, partition) => lanes.wantsMore(topic, partition),
  };
}

/**
 * Makes the deliveries of the slow lane: waits for a call that goes on from the lane it came from, or makes one,
 * however long it takes. What would wait too long for a call to begin, or takes up the room of others, is put aside, so
 * that destinations that are slow do not wait for one another.
 */
export function deliverSlow(dependencies: DeliverDependencies, lanes: PartitionLanes): FlowStage['handle'] {
  const { catalog, clock, deliverer } = dependencies;
  return promised(async (entry, context) => {
    if (isAhead(entry, catalog)) await known(dependencies, entry);
    const arrived = arrivedIn(entry, Buffer.byteLength(entry.value), catalog.position);
    const emissionsOf = ({ delivery, settlement }: Delivered): readonly Emission[] =>
      settle(StoredDelivery.of(delivery), settlement, entry.headers, clock());
    const { delivery } = arrived.stored;
    const { workspace_id, destination_id } = delivery;
    const destination = catalog.state.entity('destination', workspace_id, destination_id);
    const joined = await deliverer.join(delivery, context);
    if (joined !== undefined && joined.settlement.kind !== 'slow') return emissionsOf(joined);
    // No call could be begun for it where it was: it begins here, with what it has been through.
    const current =
      joined === undefined ? arrived : { ...arrived, stored: StoredDelivery.of(joined.delivery) };
    if (destination?.enabled !== true) return emissionsOf(closedTo(current.stored.delivery, destination));
    const { stored } = current;
    const stopped = stoppedByRule(stored, entry.headers, destination.workspace_id, catalog.state);
    if (stopped !== undefined) {
      const settlement = { kind: 'dead', cause: 'rule', reason: stopped } as const;
      return emissionsOf({ delivery: stored.delivery, settlement });
    }
    if (destination.paused === true)
      return emissionsOf(deliverer.climb.hold(current.stored.delivery, destination));
    const stay = lanes.enterAtOnce(entry, destination.id, arrived.bytes);
    try {
      const aside = deliverer.putAside(current, destination, stay === undefined);
      return emissionsOf(aside ?? (await deliverer.deliver(current, destination, context)));
    } finally {
      stay?.leave();
    }
  });
}

function known({ catalog, catalogWaitMs }: DeliverDependencies, entry: LogEntry): Promise<void> {
  return awaitCatalog(catalog, [entry], catalogWaitMs);
}
