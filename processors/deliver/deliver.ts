import {
  type Catalog,
  type Clock,
  type Delivery,
  type Destination,
  type Emission,
  type FlowStage,
  InvalidInput,
  type LogEntry,
  TOPIC,
} from '@tributary/core';
import { awaitCatalog } from '../causality.ts';
import { parseObject } from '../entry.ts';
import type { PartitionLanes } from '../partition-lanes.ts';
import type { Delivered, Deliverer } from './deliverer.ts';
import { settle } from './settlement.ts';
import { closedBecause } from './target.ts';

export interface DeliverDependencies {
  readonly catalog: Catalog;
  readonly deliverer: Deliverer;
  readonly clock: Clock;
  readonly catalogWaitMs: number;
}

/**
 * Makes the deliveries of entries. Those of a destination that is slow go on to the slow lane as they came; one that
 * takes long goes there while its call goes on.
 */
export function deliver(dependencies: DeliverDependencies, lanes: PartitionLanes): FlowStage['handle'] {
  return async (entry, context) => {
    const { delivery, destination } = await read(dependencies, entry);
    if (destination?.enabled !== true) return closed(dependencies, entry, delivery, destination);
    if (destination.paused === true)
      return settled(dependencies, entry, dependencies.deliverer.hold(delivery, destination));
    const leave = await lanes.enter(entry, destination.id);
    if (leave === undefined) {
      return [{ topic: TOPIC.deliveriesSlow, key: entry.key, value: entry.value, headers: entry.headers }];
    }
    try {
      const { deliverer } = dependencies;
      const delivered = await deliverer.deliverSoon(delivery, destination, context, lanes.slowAfterMs);
      return settled(dependencies, entry, delivered);
    } finally {
      leave();
    }
  };
}

/**
 * Makes the deliveries of the slow lane: waits for a call that goes on from the lane it came from, or makes one,
 * however long it takes.
 */
export function deliverSlow(dependencies: DeliverDependencies): FlowStage['handle'] {
  const { deliverer } = dependencies;
  return async (entry, context) => {
    const { delivery, destination } = await read(dependencies, entry);
    const joined = await deliverer.join(delivery, context);
    if (joined !== undefined && joined.settlement.kind !== 'slow')
      return settled(dependencies, entry, joined);
    // No call could be begun for it where it was: it begins here, with what it has been through.
    const current = joined?.delivery ?? delivery;
    if (destination?.enabled !== true) return closed(dependencies, entry, current, destination);
    return settled(dependencies, entry, await deliverer.deliver(current, destination, context));
  };
}

/** The delivery, and its destination as it is now. */
async function read({ catalog, catalogWaitMs }: DeliverDependencies, entry: LogEntry) {
  await awaitCatalog(catalog, [entry], catalogWaitMs);
  const delivery = deliveryOf(entry);
  const { workspace_id, destination_id } = delivery;
  return { delivery, destination: catalog.state.entity('destination', workspace_id, destination_id) };
}

function settled(
  { clock }: DeliverDependencies,
  entry: LogEntry,
  { delivery, settlement }: Delivered,
): readonly Emission[] {
  return settle(delivery, settlement, entry.headers, clock());
}

function closed(
  dependencies: DeliverDependencies,
  entry: LogEntry,
  delivery: Delivery,
  destination: Destination | undefined,
): readonly Emission[] {
  const reason = closedBecause(destination);
  const settlement = { kind: 'dead', cause: 'destination', reason } as const;
  return settled(dependencies, entry, { delivery, settlement });
}

function deliveryOf(entry: LogEntry): Delivery {
  const delivery = parseObject(entry.value) as Partial<Delivery>;
  const { id, workspace_id, destination_id, created_at, attempts, redrives, event } = delivery;
  if (typeof id !== 'string' || typeof workspace_id !== 'string' || typeof destination_id !== 'string')
    throw new InvalidInput('no delivery');
  if (typeof created_at !== 'string' || Number.isNaN(Date.parse(created_at)))
    throw new InvalidInput('no time of creation');
  if (!Array.isArray(attempts) || typeof redrives !== 'number') throw new InvalidInput('no attempts');
  if (typeof event !== 'object' || event === null) throw new InvalidInput('no event');
  return delivery as Delivery;
}
