import {
  type Catalog,
  type Delivery,
  type Destination,
  MAX_JITTER,
  type Metrics,
  OVERLOAD_PATIENCE,
  type StageContext,
  withFields,
} from '@tributary/core';
import { Patience } from '../patience.ts';
import { Climb, type Delivered } from './climb.ts';
import type { DestinationCalls, DestinationReport } from './destination-calls.ts';
import { HandedOver } from './handed-over.ts';
import { type Arrived, type Asker, Making, type MakingTools, type Settled, type Waits } from './making.ts';
import { Places, type PlacesDependencies } from './places.ts';

export interface DelivererDependencies extends PlacesDependencies {
  readonly metrics: Metrics;
  readonly catalog: Pick<Catalog, 'position' | 'state'>;
  readonly keptAttempts: number;
  readonly expiryMs: number;
}

/**
 * Makes deliveries, for all stages of a process that do: limits and circuit breakers belong to a destination, however
 * its deliveries come.
 *
 * When the stages stop: a call under way is finished and settled by the stage that made it, however long it takes;
 * one that was handed over is finished by the slow lane that joined it. One handed over whose entry the slow lane had
 * not taken yet is made again by whoever takes that entry next.
 */
export class Deliverer {
  readonly #dependencies: DelivererDependencies;
  readonly #places: Places;
  readonly #handedOver = new HandedOver();
  readonly #tools: MakingTools;
  readonly climb: Climb;
  #soonWaits: Waits | undefined;

  constructor(dependencies: DelivererDependencies) {
    this.#dependencies = dependencies;
    this.climb = new Climb(dependencies);
    this.#places = new Places(dependencies);
    const { clock, metrics, catalog, keptAttempts, current, elapsed, overloaded } = dependencies;
    this.#tools = {
      clock,
      metrics,
      catalog,
      keptAttempts,
      current,
      climb: this.climb,
      patience: new Patience(elapsed, () => (overloaded() ? OVERLOAD_PATIENCE : 1)),
      handedOver: this.#handedOver,
    };
  }

  /** The calls to a destination, to be asked for no longer than this turn: they may begin anew. */
  callsTo({ id }: Destination): DestinationCalls {
    return this.#places.callsTo(id);
  }

  /** How the destinations are doing that have calls here. */
  health(): readonly DestinationReport[] {
    return [...this.#places].map((calls) => calls.health());
  }

  /**
   * Puts a delivery aside that would wait for its call for longer than the shortest retry topic takes, or that there is
   * no room for; undefined where it may wait here. So what a process holds of a destination is what it can deliver
   * within that time, however much there is, and nothing is gained by holding more. Whose turn has come is let in
   * before newer ones. Room is no reason while this process is what everybody waits for. Throws `InvalidInput` for what
   * is no delivery.
   */
  putAside(
    arrived: Arrived,
    destination: Destination,
    noRoom = false,
    calls = this.callsTo(destination),
  ): Delivered | undefined {
    const waitMs = calls.expectedWaitMs(true);
    const isCrowded = noRoom && waitMs > 0 && !this.#dependencies.overloaded();
    if (!isCrowded && waitMs <= this.#mayWaitMs(arrived)) return undefined;
    return this.#aside(arrived, destination, calls);
  }

  /** Whether what was put aside for the destination may come before its time; see `DestinationCalls.invite`. */
  invite(destinationId: string): boolean {
    const destination = this.#dependencies.current(destinationId);
    if (destination?.enabled !== true || destination.paused === true) return false;
    return this.#places.callsTo(destinationId).invite();
  }

  /**
   * However long the call takes; where none can begin in good time, the delivery is put aside. Rejects with
   * `Unavailable` when the context's signal is aborted, with `InvalidInput` for what is no delivery.
   */
  async deliver(arrived: Arrived, destination: Destination, context: StageContext): Promise<Delivered> {
    const waits: Waits = { ms: this.#mayWaitMs(arrived), mayBeHeld: true, isHandedOver: false };
    const calls = this.callsTo(destination);
    const { stored, settlement } = await new Promise<Settled>((resolve, reject) => {
      const asker: Asker = {
        settled: (stored, settlement) => resolve({ stored, settlement }),
        failed: reject,
      };
      new Making(this.#tools, arrived, destination, calls, waits, asker).begin(context);
    });
    if (settlement.kind !== 'slow') return { delivery: stored.delivery, settlement };
    return this.#aside({ ...arrived, stored }, destination, this.callsTo(destination));
  }

  /**
   * As `deliver`, but tells after `patienceMs` that the delivery is `slow`, and belongs into the slow lane. A call
   * under way goes on, to be joined there; none begins for it any more, as the slow lane may be another process's.
   * When the stage stops there is nothing left to hurry for.
   */
  deliverSoon(
    arrived: Arrived,
    destination: Destination,
    context: StageContext,
    patienceMs: number,
    asker: Asker,
  ): void {
    const { stored } = arrived;
    // Its entry was taken again, by a partition that began anew, before it came to the slow lane.
    if (!this.#handedOver.isEmpty && this.#handedOver.has(stored.delivery)) {
      asker.settled(stored, { kind: 'slow' });
      return;
    }
    const calls = this.callsTo(destination);
    new Making(this.#tools, arrived, destination, calls, this.#soon(patienceMs), asker).begin(context);
  }

  /**
   * What became of the very try of a delivery that another lane of this process began; undefined when none did. It
   * may be settled as `slow`: no call could be begun for it where it was.
   */
  async join(delivery: Delivery, { signal }: StageContext): Promise<Delivered | undefined> {
    const underWay = this.#handedOver.take(delivery);
    if (underWay === undefined) return undefined;
    underWay.interest.follow(signal);
    try {
      const { attempts, created_at, settlement } = await underWay.ended;
      return { delivery: withFields(delivery, { attempts, created_at }), settlement };
    } finally {
      underWay.interest.release();
    }
  }

  /** The same for all that have the same patience. */
  #soon(ms: number): Waits {
    if (this.#soonWaits?.ms !== ms) this.#soonWaits = { ms, mayBeHeld: false, isHandedOver: true };
    return this.#soonWaits;
  }

  /** The time the shortest retry topic takes at most, twice for what has waited for its turn. */
  #mayWaitMs({ turn }: Arrived): number {
    const { ladder, clock } = this.#dependencies;
    const onceMs = ladder[0].ms * (1 + MAX_JITTER);
    return turn !== undefined && turn - clock() <= onceMs ? 2 * onceMs : onceMs;
  }

  /** Expires by how long there was no room for it: one that nobody delivered until now is old for no fault of its place. */
  #aside({ stored, turn, asideSince }: Arrived, { type }: Destination, calls: DestinationCalls): Delivered {
    const { clock, expiryMs, metrics } = this.#dependencies;
    const { delivery } = stored;
    calls.notePutOff();
    const now = clock();
    const since = asideSince ?? now;
    if (now - since >= expiryMs) {
      const reason = 'expired; its destination took no more';
      return { delivery, settlement: { kind: 'dead', cause: 'expired', reason } };
    }
    metrics.count('tributary_deliveries_total', { outcome: 'put_aside', connector: type });
    const { at, step } = calls.turn(turn);
    return { delivery, settlement: { kind: 'aside', label: step.label, turn: Math.round(at), since } };
  }
}
