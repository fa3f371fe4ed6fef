import {
  type Delivery,
  type DeliveryResult,
  type Destination,
  holdStep,
  iso,
  MAX_JITTER,
  type Metrics,
  type NextStep,
  nextStep,
  OVERLOAD_PATIENCE,
  type StageContext,
} from '@tributary/core';
import type { Queue } from '../partition-lanes.ts';
import { Patience } from '../patience.ts';
import { type Piece, withAttempt } from './attempt.ts';
import type { Attempted, DestinationCalls, DestinationReport } from './destination-calls.ts';
import { HandedOver } from './handed-over.ts';
import { Interest } from './interest.ts';
import { Places, type PlacesDependencies } from './places.ts';
import type { Settlement } from './settlement.ts';
import { PAUSED } from './target.ts';

export interface DelivererDependencies extends PlacesDependencies {
  readonly metrics: Metrics;
  readonly keptAttempts: number;
  readonly expiryMs: number;
}

/** The delivery with the attempts made now, and how it goes on. */
export interface Delivered {
  readonly delivery: Delivery;
  readonly settlement: Settlement;
}

/** A delivery as it comes from the log. */
export interface Arrived extends Piece {
  /** The turn it was given when its destination had no room for it, and since when that is so; epoch ms. */
  readonly turn?: number | undefined;
  readonly asideSince?: number | undefined;
  /** Nothing is told of it where its first attempt delivers it: that attempt need not be kept. */
  readonly untold?: boolean;
  /** It was neither tried nor put off before: its time to expire begins now, however long the stages left it lying. */
  readonly untried?: boolean;
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
    // One for both: who has waited too long for a call to begin is out of its line before a lane hands it over.
    this.#patience = new Patience(dependencies.elapsed, () =>
      dependencies.overloaded() ? OVERLOAD_PATIENCE : 1,
    );
    this.#places = new Places(dependencies, this.#patience);
  }

  /** What waits for a destination, for who decides whether more is to wait. */
  queueOf({ id }: Destination): Queue {
    const { overloaded } = this.#dependencies;
    return { waitMs: () => this.#places.callsTo(id).expectedWaitMs(false), overloaded };
  }

  /** How the destinations are doing that have calls here. */
  health(): readonly DestinationReport[] {
    return [...this.#places].map((calls) => calls.health());
  }

  /**
   * Puts a delivery aside that would wait for its call for longer than the shortest retry topic takes, or that there is
   * no room for; undefined where it may wait here. So what a process holds of a destination is what it can deliver
   * within that time, however much there is, and nothing is gained by holding more. Whose turn has come is let in
   * before newer ones. Room is no reason while this process is what everybody waits for.
   */
  putAside(arrived: Arrived, destination: Destination, noRoom = false): Delivered | undefined {
    const calls = this.#places.callsTo(destination.id);
    const crowded = noRoom && !this.#dependencies.overloaded() && calls.expectedWaitMs(true) > 0;
    if (!crowded && calls.expectedWaitMs(true) <= this.#mayWaitMs(arrived)) return undefined;
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
   * `Unavailable` when the context's signal is aborted, for nothing else.
   */
  async deliver(arrived: Arrived, destination: Destination, context: StageContext): Promise<Delivered> {
    const beginWithinMs = this.#mayWaitMs(arrived);
    const interest = new Interest(context.signal);
    const delivered = await this.#begin(arrived, destination, interest, beginWithinMs, true);
    if (delivered.settlement.kind !== 'slow') return delivered;
    const current = { ...arrived, delivery: delivered.delivery };
    return this.#aside(current, destination, this.#places.callsTo(destination.id));
  }

  /**
   * As `deliver`, but answers after `patienceMs`: a delivery that is not settled is handed back for the slow lane. A
   * call under way goes on, to be joined there; none begins for it any more, as the slow lane may be another process's.
   * When the stage stops there is nothing left to hurry for.
   */
  async deliverSoon(
    arrived: Arrived,
    destination: Destination,
    context: StageContext,
    patienceMs: number,
  ): Promise<Delivered> {
    const { delivery } = arrived;
    const handedOver: Delivered = { delivery, settlement: { kind: 'slow' } };
    // its entry was taken again, by a partition that began anew, before it came to the slow lane
    if (this.#handedOver.has(delivery)) return handedOver;
    const interest = new Interest(context.signal);
    const work = this.#begin(arrived, destination, interest, patienceMs, false);
    return new Promise((resolve, reject) => {
      const settled = this.#patience.wait(patienceMs, () => {
        if (context.stopping?.aborted) return;
        interest.release();
        const ended = work.then(({ delivery: { attempts, created_at }, settlement }) => ({
          attempts,
          created_at,
          settlement,
        }));
        this.#handedOver.put(delivery, { ended, interest });
        resolve(handedOver);
      });
      const then =
        <T>(done: (outcome: T) => void) =>
        (outcome: T) => {
          settled();
          done(outcome);
        };
      work.then(then(resolve), then(reject));
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
      const { attempts, created_at, settlement } = await underWay.ended;
      return { delivery: { ...delivery, attempts, created_at }, settlement };
    } finally {
      underWay.interest.release();
    }
  }

  /**
   * No attempt was made, so none is recorded and the ladder is not climbed. The wait is the delivery's age instead:
   * it grows as the ladder does, and a long outage does not send every delivery around the shortest topic. It is not
   * longer than the trouble has lasted: what waited in a backlog grew old without any.
   */
  putOff(delivery: Delivery, reason: string, troubleMs = Number.POSITIVE_INFINITY): Delivered {
    const ageMs = Math.max(0, this.#dependencies.clock() - Date.parse(delivery.created_at));
    const afterMs = Math.min(ageMs, troubleMs);
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

  /** The time the shortest retry topic takes at most, twice for what has waited for its turn. */
  #mayWaitMs({ turn }: Arrived): number {
    const { ladder, clock } = this.#dependencies;
    const onceMs = ladder[0].ms * (1 + MAX_JITTER);
    return turn !== undefined && turn - clock() <= onceMs ? 2 * onceMs : onceMs;
  }

  /** Expires by how long there was no room for it: one that nobody delivered until now is old for no fault of its place. */
  #aside({ delivery, turn, asideSince }: Arrived, { type }: Destination, calls: DestinationCalls): Delivered {
    const { clock, expiryMs, metrics } = this.#dependencies;
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

  async #begin(
    { bytes, ...arrived }: Arrived,
    destination: Destination,
    interest: Interest,
    patienceMs: number,
    mayBeHeld: boolean,
  ): Promise<Delivered> {
    const calls = this.#places.callsTo(destination.id);
    try {
      return await this.#attempt(arrived, destination, calls, (delivery) =>
        calls.attempt({ delivery, bytes }, interest, patienceMs, mayBeHeld),
      );
    } finally {
      interest.release();
    }
  }

  async #attempt(
    { delivery, untold, untried }: Omit<Arrived, 'bytes'>,
    destination: Destination,
    calls: DestinationCalls,
    attempt: Attempting,
  ): Promise<Delivered> {
    const { type } = destination;
    const { metrics, keptAttempts } = this.#dependencies;
    const begun = () =>
      untried === true ? { ...delivery, created_at: iso(this.#dependencies.clock()) } : delivery;
    let current = delivery;
    for (let atOnce = false; ; atOnce = true) {
      const made = await attempt(current);
      if (made === 'no room') return { delivery: current, settlement: { kind: 'slow' } };
      if (made === 'circuit open') {
        metrics.count('tributary_deliveries_total', { outcome: 'circuit_open', connector: type });
        calls.notePutOff();
        return this.putOff(atOnce ? current : begun(), 'circuit open', calls.circuitOpenMs());
      }
      if ('unreachable' in made) {
        const { unreachable: reason, forGood } = made;
        if (reason === PAUSED)
          return this.hold(current, this.#dependencies.current(destination.id) ?? destination);
        if (!forGood) return this.putOff(atOnce ? current : begun(), reason);
        return { delivery: current, settlement: { kind: 'dead', cause: 'destination', reason } };
      }
      const { result, durationMs } = made;
      metrics.count('tributary_deliveries_total', { outcome: result.outcome, connector: type });
      metrics.observe('tributary_delivery_seconds', durationMs / 1_000, { connector: type });
      if (untold === true && !atOnce && result.outcome === 'delivered')
        return { delivery: current, settlement: { kind: 'delivered' } };
      if (!atOnce && result.outcome !== 'delivered') current = begun();
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
