import {
  type Delivery,
  type DeliveryResult,
  type Destination,
  holdStep,
  iso,
  type Ladder,
  type Metrics,
  type NextStep,
  nextStep,
  type StageContext,
} from '@tributary/core';
import { Patience } from '../patience.ts';
import { withAttempt } from './attempt.ts';
import type { Attempted } from './destination-calls.ts';
import { HandedOver } from './handed-over.ts';
import { Interest } from './interest.ts';
import { Places, type PlacesDependencies } from './places.ts';
import type { Settlement } from './settlement.ts';
import { PAUSED } from './target.ts';

export interface DelivererDependencies extends PlacesDependencies {
  readonly metrics: Metrics;
  readonly keptAttempts: number;
  readonly ladder: Ladder;
  readonly expiryMs: number;
}

/** The delivery with the attempts made now, and how it goes on. */
export interface Delivered {
  readonly delivery: Delivery;
  readonly settlement: Settlement;
}

type Failure = Exclude<DeliveryResult, { outcome: 'delivered' }>;
type Attempting = (current: Delivery) => Promise<Attempted>;

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
  readonly #patience: Patience;
  readonly #handedOver = new HandedOver();

  constructor(dependencies: DelivererDependencies) {
    this.#dependencies = dependencies;
    this.#places = new Places(dependencies);
    this.#patience = new Patience(dependencies.elapsed);
  }

  /** Rejects with `Unavailable` when the context's signal is aborted, for nothing else. */
  deliver(delivery: Delivery, destination: Destination, context: StageContext): Promise<Delivered> {
    return this.#begin(delivery, destination, new Interest(context.signal));
  }

  /**
   * As `deliver`, but answers after `patienceMs`: a delivery that is not settled is handed back for the slow lane,
   * and a call under way goes on, to be joined there. When the stage stops there is nothing left to hurry for.
   */
  async deliverSoon(
    delivery: Delivery,
    destination: Destination,
    context: StageContext,
    patienceMs: number,
  ): Promise<Delivered> {
    const handedOver: Delivered = { delivery, settlement: { kind: 'slow' } };
    // its entry was taken again, by a partition that began anew, before it came to the slow lane
    if (this.#handedOver.has(delivery)) return handedOver;
    const interest = new Interest(context.signal);
    const work = this.#begin(delivery, destination, interest, patienceMs);
    return new Promise((resolve, reject) => {
      const settled = this.#patience.wait(patienceMs, () => {
        if (context.stopping?.aborted) return;
        interest.release();
        const ended = work.then(({ delivery: { attempts }, settlement }) => ({ attempts, settlement }));
        this.#handedOver.put(delivery, { ended, interest });
        resolve(handedOver);
      });
      work.then(resolve, reject).finally(settled);
    });
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
      const { attempts, settlement } = await underWay.ended;
      return { delivery: { ...delivery, attempts }, settlement };
    } finally {
      underWay.interest.release();
    }
  }

  /**
   * No attempt was made, so none is recorded and the ladder is not climbed. The wait is the delivery's age instead:
   * it grows as the ladder does, and a long outage does not send every delivery around the shortest topic.
   */
  putOff(delivery: Delivery, reason: string): Delivered {
    const afterMs = Math.max(0, this.#dependencies.clock() - Date.parse(delivery.created_at));
    const result: Failure = { outcome: 'retry', reason, afterMs };
    const settlement = settlementOf(result, this.#next(delivery, result));
    if (settlement === 'again-now') throw new Error('nothing was reset');
    return { delivery, settlement };
  }

  /**
   * The destination is paused: the delivery waits as long as that takes. It keeps its attempts, and its time to expire
   * begins anew each time, so that it gets all of it once the destination goes on.
   */
  hold(delivery: Delivery, destination: Pick<Destination, 'updated_at'>): Delivered {
    const { clock, ladder } = this.#dependencies;
    const now = clock();
    const { label, ms } = holdStep(ladder, now - Date.parse(destination.updated_at));
    const settlement = { kind: 'retry', label, notBefore: now + ms, reason: PAUSED } as const;
    return { delivery: { ...delivery, created_at: iso(now) }, settlement };
  }

  async #begin(
    delivery: Delivery,
    destination: Destination,
    interest: Interest,
    patienceMs?: number,
  ): Promise<Delivered> {
    const calls = this.#places.callsTo(destination.id);
    try {
      return await this.#attempt(delivery, destination, (current) =>
        calls.attempt(current, interest, patienceMs),
      );
    } finally {
      interest.release();
    }
  }

  async #attempt(delivery: Delivery, destination: Destination, attempt: Attempting): Promise<Delivered> {
    const { type } = destination;
    const { metrics, keptAttempts } = this.#dependencies;
    let current = delivery;
    for (let atOnce = false; ; atOnce = true) {
      const made = await attempt(current);
      if (made === 'no room') return { delivery: current, settlement: { kind: 'slow' } };
      if (made === 'circuit open') {
        metrics.count('tributary_deliveries_total', { outcome: 'circuit_open', connector: type });
        return this.putOff(current, 'circuit open');
      }
      if ('unreachable' in made) {
        const { unreachable: reason, forGood } = made;
        if (reason === PAUSED)
          return this.hold(current, this.#dependencies.current(destination.id) ?? destination);
        if (!forGood) return this.putOff(current, reason);
        return { delivery: current, settlement: { kind: 'dead', cause: 'destination', reason } };
      }
      const { result, durationMs } = made;
      metrics.count('tributary_deliveries_total', { outcome: result.outcome, connector: type });
      metrics.observe('tributary_delivery_seconds', durationMs / 1_000, { connector: type });
      current = withAttempt(current, made, atOnce, keptAttempts);
      if (result.outcome === 'delivered') return { delivery: current, settlement: { kind: 'delivered' } };
      const settlement = settlementOf(result, this.#next(current, result));
      if (settlement !== 'again-now') return { delivery: current, settlement };
    }
  }

  #next(delivery: Delivery, result: Failure): NextStep {
    const { clock, ladder, expiryMs } = this.#dependencies;
    const createdAt = Date.parse(delivery.created_at);
    return nextStep({ attempts: delivery.attempts, result, createdAt, now: clock(), ladder, expiryMs });
  }
}

function settlementOf(result: Failure, step: NextStep): Settlement | 'again-now' {
  if (step.kind === 'again-now') return 'again-now';
  return step.kind === 'dead' ? step : { ...step, reason: result.reason };
}
