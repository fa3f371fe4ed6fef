import {
  type Catalog,
  type Clock,
  type Delivery,
  type Destination,
  type Emission,
  type FlowStage,
  HEADER,
  type LogEntry,
  readDelivery,
  TOPIC,
} from '@tributary/core';
import { awaitCatalog, isAhead } from '../causality.ts';
import type { PartitionLanes } from '../partition-lanes.ts';
import type { Arrived, Delivered, Deliverer } from './deliverer.ts';
import { isFirstTry, isUntried, settle } from './settlement.ts';
import { closedBecause } from './target.ts';

export interface DeliverDependencies {
  readonly catalog: Catalog;
  readonly deliverer: Deliverer;
  readonly clock: Clock;
  readonly catalogWaitMs: number;
}

/**
 * Makes the deliveries of entries. Those of a destination that is slow go on to the slow lane as they came; one that
 * takes long goes there while its call goes on. What would wait for longer than a retry topic takes goes to one.
 */
export function deliver(dependencies: DeliverDependencies, lanes: PartitionLanes): FlowStage['handle'] {
  const { deliverer } = dependencies;
  return async (entry, context) => {
    if (isAhead(entry, dependencies.catalog)) await known(dependencies, entry);
    const { arrived, destination } = read(dependencies, entry);
    if (destination?.enabled !== true) return closed(dependencies, entry, arrived.delivery, destination);
    if (destination.paused === true)
      return settled(dependencies, entry, deliverer.hold(arrived.delivery, destination));
    const aside = deliverer.putAside(arrived, destination);
    if (aside !== undefined) return settled(dependencies, entry, aside);
    const leave = await lanes.enter(entry, destination.id, deliverer.queueOf(destination));
    if (leave === undefined) {
      return [{ topic: TOPIC.deliveriesSlow, key: entry.key, value: entry.value, headers: entry.headers }];
    }
    try {
      const delivered = await deliverer.deliverSoon(arrived, destination, context, lanes.slowAfterMs);
      return settled(dependencies, entry, delivered);
    } finally {
      leave();
    }
  };
}

/**
 * Makes the deliveries of the slow lane: waits for a call that goes on from the lane it came from, or makes one,
 * however long it takes. What would wait too long for a call to begin, or takes up the room of others, is put aside, so
 * that destinations that are slow do not wait for one another.
 */
export function deliverSlow(dependencies: DeliverDependencies, lanes: PartitionLanes): FlowStage['handle'] {
  const { deliverer } = dependencies;
  return async (entry, context) => {
    if (isAhead(entry, dependencies.catalog)) await known(dependencies, entry);
    const { arrived, destination } = read(dependencies, entry);
    const joined = await deliverer.join(arrived.delivery, context);
    if (joined !== undefined && joined.settlement.kind !== 'slow')
      return settled(dependencies, entry, joined);
    // No call could be begun for it where it was: it begins here, with what it has been through.
    const current = { ...arrived, delivery: joined?.delivery ?? arrived.delivery };
    if (destination?.enabled !== true) return closed(dependencies, entry, current.delivery, destination);
    if (destination.paused === true)
      return settled(dependencies, entry, deliverer.hold(current.delivery, destination));
    const leave = lanes.enterAtOnce(entry, destination.id);
    try {
      const aside = deliverer.putAside(current, destination, leave === undefined);
      return settled(dependencies, entry, aside ?? (await deliverer.deliver(current, destination, context)));
    } finally {
      leave?.();
    }
  };
}

function known({ catalog, catalogWaitMs }: DeliverDependencies, entry: LogEntry): Promise<void> {
  return awaitCatalog(catalog, [entry], catalogWaitMs);
}

/** What arrived, and its destination as it is now. */
function read({ catalog }: DeliverDependencies, entry: LogEntry) {
  const delivery = readDelivery(entry.value);
  const { workspace_id, destination_id } = delivery;
  const arrived: Arrived = {
    delivery,
    bytes: Buffer.byteLength(entry.value),
    turn: timeIn(entry, HEADER.turn),
    asideSince: timeIn(entry, HEADER.asideSince),
    untold: isFirstTry(delivery, entry.headers),
    untried: isUntried(delivery, entry.headers),
  };
  return { arrived, destination: catalog.state.entity('destination', workspace_id, destination_id) };
}

function timeIn({ headers }: LogEntry, name: string): number | undefined {
  const time = Number(headers[name] ?? Number.NaN);
  return Number.isFinite(time) ? time : undefined;
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
