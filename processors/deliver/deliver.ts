import {
  type Catalog,
  type Clock,
  type Delivery,
  type FlowStage,
  InvalidInput,
  type LogEntry,
  TOPIC,
} from '@tributary/core';
import { awaitCatalog } from '../causality.ts';
import { parseObject } from '../entry.ts';
import type { PartitionLanes } from '../partition-lanes.ts';
import type { Deliverer } from './deliverer.ts';
import { settle } from './settlement.ts';

export interface DeliverDependencies {
  readonly catalog: Catalog;
  readonly deliverer: Deliverer;
  readonly clock: Clock;
  readonly catalogWaitMs: number;
}

/**
 * Makes the delivery of an entry. With `lanes`, those of a destination that has its share of the window go on to the
 * slow lane, as they came.
 */
export function deliver(
  { catalog, deliverer, clock, catalogWaitMs }: DeliverDependencies,
  lanes?: PartitionLanes,
): FlowStage['handle'] {
  return async (entry, context) => {
    await awaitCatalog(catalog, [entry], catalogWaitMs);
    const delivery = deliveryOf(entry);
    const destination = catalog.state.entity('destination', delivery.workspace_id, delivery.destination_id);
    if (destination?.enabled !== true) {
      const reason = destination === undefined ? 'the destination is gone' : 'the destination is disabled';
      return settle(delivery, { kind: 'dead', cause: 'destination', reason }, entry.headers, clock());
    }
    const leave = lanes === undefined ? () => {} : lanes.enter(entry, destination.id);
    if (leave === undefined) {
      return [{ topic: TOPIC.deliveriesSlow, key: entry.key, value: entry.value, headers: entry.headers }];
    }
    try {
      const delivered = await deliverer.deliver(delivery, destination, context.signal, lanes?.slowAfterMs);
      return settle(delivered.delivery, delivered.settlement, entry.headers, clock());
    } finally {
      leave();
    }
  };
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
