import {
  type Catalog,
  type Clock,
  type Destination,
  type FlowContext,
  type LogEntry,
  StoredDelivery,
  stoppedByRule,
  TOPIC,
} from '@tributary/core';
import type { Entrant, PartitionLanes, Stay } from '../partition-lanes.ts';
import { arrivedIn } from './arrival.ts';
import { closedTo, type Delivered } from './climb.ts';
import type { Deliverer } from './deliverer.ts';
import type { Arrived, Asker } from './making.ts';
import { type Settlement, settle } from './settlement.ts';

export interface DeliverDependencies {
  readonly catalog: Catalog;
  readonly deliverer: Deliverer;
  readonly clock: Clock;
  readonly catalogWaitMs: number;
}

export interface QuickDependencies extends DeliverDependencies {
  readonly lanes: PartitionLanes;
}

/** An entry of a quick lane, from when it was handed over until its stage is told what became of it. */
export class QuickDelivery implements Entrant, Asker {
  readonly #dependencies: QuickDependencies;
  readonly #entry: LogEntry;
  readonly #context: FlowContext;
  /** While it waits to enter its lane. */
  #arrived: Arrived | undefined;
  #destination: Destination | undefined;
  #stay: Stay | undefined;

  constructor(dependencies: QuickDependencies, entry: LogEntry, context: FlowContext) {
    this.#dependencies = dependencies;
    this.#entry = entry;
    this.#context = context;
  }

  /** What this process knows is as new as the entry. */
  begin(): void {
    try {
      this.#begin();
    } catch (thrown) {
      this.failed(thrown);
    }
  }

  #begin(): void {
    const { deliverer, lanes } = this.#dependencies;
    const { bytes } = this.#context;
    const arrived = arrivedIn(this.#entry, bytes, this.#dependencies.catalog.position);
    const destination = this.#destinationOf(arrived.stored);
    if (destination?.enabled !== true) {
      this.#settledAs(closedTo(arrived.stored.delivery, destination));
      return;
    }
    const stopped = stoppedByRule(
      arrived.stored,
      this.#entry.headers,
      destination.workspace_id,
      this.#dependencies.catalog.state,
    );
    if (stopped !== undefined) {
      this.settled(arrived.stored, { kind: 'dead', cause: 'rule', reason: stopped });
      return;
    }
    if (destination.paused === true) {
      this.#settledAs(deliverer.climb.hold(arrived.stored.delivery, destination));
      return;
    }
    const calls = deliverer.callsTo(destination);
    const aside = deliverer.putAside(arrived, destination, false, calls);
    if (aside !== undefined) {
      this.#settledAs(aside);
      return;
    }
    this.#arrived = arrived;
    this.#destination = destination;
    lanes.enter(this.#entry, destination.id, bytes, this, calls.crowd);
  }

  entered(stay: Stay): void {
    const { deliverer, lanes } = this.#dependencies;
    const [arrived, destination] = [this.#arrived, this.#destination];
    this.#arrived = undefined;
    this.#stay = stay;
    if (arrived === undefined || destination === undefined) return;
    try {
      deliverer.deliverSoon(arrived, destination, this.#context, lanes.slowAfterMs, this);
    } catch (thrown) {
      this.failed(thrown);
    }
  }

  turnedAway(): void {
    const { key, value, headers } = this.#entry;
    this.#context.done([{ topic: TOPIC.deliveriesSlow, key, value, headers }]);
  }

  settled(stored: StoredDelivery, settlement: Settlement): void {
    try {
      const emissions = settle(stored, settlement, this.#entry.headers, this.#dependencies.clock());
      this.#stay?.leave();
      this.#context.done(emissions);
    } catch (thrown) {
      this.failed(thrown);
    }
  }

  failed(error: unknown): void {
    this.#stay?.leave();
    this.#context.failed(error);
  }

  #settledAs({ delivery, settlement }: Delivered): void {
    this.settled(StoredDelivery.of(delivery), settlement);
  }

  /** The key begins with its id, so that the delivery need not be read for it. */
  #destinationOf(stored: StoredDelivery): Destination | undefined {
    const { state } = this.#dependencies.catalog;
    const { key } = this.#entry;
    const known = state.destination(key.slice(0, Math.max(0, key.indexOf(':'))));
    if (known !== undefined && stored.isTo(known.id)) return known;
    const { workspace_id, destination_id } = stored.delivery;
    return state.entity('destination', workspace_id, destination_id);
  }
}
