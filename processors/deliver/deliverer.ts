import {
  type BreakerOptions,
  type Clock,
  type ConnectorCatalog,
  type ConnectorDestination,
  type Delivery,
  type DeliveryResult,
  type Destination,
  type Ladder,
  type Logger,
  type Metrics,
  messageOf,
  type NextStep,
  nextStep,
  Unavailable,
} from '@tributary/core';
import { Patience } from '../patience.ts';
import { withAttempt } from './attempt.ts';
import { type Attempted, DestinationCalls } from './destination-calls.ts';
import { HandedOver } from './handed-over.ts';
import type { Settlement } from './settlement.ts';

export interface DelivererDependencies {
  readonly connectors: ConnectorCatalog;
  /** The destination with its secrets opened. Asked once per version. Throws when no key opens them. */
  unseal(destination: Destination): ConnectorDestination;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly breaker: BreakerOptions;
  readonly maxCalls: number;
  readonly keptAttempts: number;
  readonly ladder: Ladder;
  readonly expiryMs: number;
}

/** The delivery with the attempts made now, and how it goes on. */
export interface Delivered {
  readonly delivery: Delivery;
  readonly settlement: Settlement;
}

interface Place {
  readonly calls: DestinationCalls;
  unsealed: ConnectorDestination | undefined;
}

type Failure = Exclude<DeliveryResult, { outcome: 'delivered' }>;

/**
 * Makes deliveries, for all stages of a process that do: limits and circuit breakers belong to a destination, however
 * its deliveries come.
 */
export class Deliverer {
  readonly #dependencies: DelivererDependencies;
  readonly #places = new Map<string, Place>();
  readonly #patience: Patience;
  readonly #handedOver: HandedOver<Delivered>;

  constructor(dependencies: DelivererDependencies) {
    this.#dependencies = dependencies;
    this.#patience = new Patience(dependencies.clock);
    this.#handedOver = new HandedOver(this.#patience);
  }

  /**
   * Rejects with `Unavailable` when `signal` is aborted, for nothing else. With `patienceMs` it answers by then: a
   * delivery that is not settled is handed back for the slow lane, and a call under way goes on, to be joined there.
   */
  async deliver(
    delivery: Delivery,
    destination: Destination,
    signal: AbortSignal,
    patienceMs?: number,
  ): Promise<Delivered> {
    const joined = patienceMs === undefined ? await this.#join(delivery.id, signal) : undefined;
    if (joined !== undefined && joined.settlement.kind !== 'slow') return joined;
    // No call could be begun for it where it was: it begins here, with what it has been through.
    return this.#begin(joined?.delivery ?? delivery, destination, signal, patienceMs);
  }

  async #begin(
    delivery: Delivery,
    destination: Destination,
    signal: AbortSignal,
    patienceMs: number | undefined,
  ): Promise<Delivered> {
    const connector = this.#dependencies.connectors.connector(destination.type);
    if (connector === undefined) {
      const reason = `no connector of type ${destination.type}`;
      return { delivery, settlement: { kind: 'dead', cause: 'destination', reason } };
    }
    const place = this.#placeOf(destination);
    const unsealed = this.#unseal(place, destination);
    if (unsealed === undefined) {
      return this.#putOff(delivery, { outcome: 'retry', reason: 'the settings cannot be unsealed' });
    }
    const target = { connector, destination: unsealed };
    const attempt = (current: Delivery) => place.calls.attempt(current, target, signal, patienceMs);
    const work = this.#attempt(delivery, destination.type, attempt);
    return patienceMs === undefined ? work : this.#withPatience(delivery, work, patienceMs);
  }

  /** The result of a call that another lane of this process began; undefined when there is none, or it was aborted. */
  async #join(id: string, signal: AbortSignal): Promise<Delivered | undefined> {
    const work = this.#handedOver.take(id);
    if (work === undefined) return undefined;
    const left = Promise.withResolvers<never>();
    const leave = () => left.reject(new Unavailable('stopped while a delivery was under way'));
    signal.addEventListener('abort', leave, { once: true });
    try {
      return await Promise.race([work, left.promise]);
    } catch {
      signal.throwIfAborted();
      return undefined;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  #withPatience(delivery: Delivery, work: Promise<Delivered>, patienceMs: number): Promise<Delivered> {
    return new Promise((resolve, reject) => {
      const settled = this.#patience.wait(patienceMs, () => {
        this.#handedOver.put(delivery.id, work);
        resolve({ delivery, settlement: { kind: 'slow' } });
      });
      work.then(resolve, reject).finally(settled);
    });
  }

  async #attempt(
    delivery: Delivery,
    type: string,
    attempt: (current: Delivery) => Promise<Attempted>,
  ): Promise<Delivered> {
    const { metrics, keptAttempts } = this.#dependencies;
    let current = delivery;
    for (let atOnce = false; ; atOnce = true) {
      const made = await attempt(current);
      if (made === 'no room') return { delivery: current, settlement: { kind: 'slow' } };
      if (made === 'circuit open') {
        metrics.count('tributary_deliveries_total', { outcome: 'circuit_open', connector: type });
        return this.#putOff(current, { outcome: 'retry', reason: 'circuit open' });
      }
      const { result } = made;
      metrics.count('tributary_deliveries_total', { outcome: result.outcome, connector: type });
      metrics.observe('tributary_delivery_seconds', (made.endedAt - made.startedAt) / 1_000, {
        connector: type,
      });
      current = withAttempt(current, made, atOnce, keptAttempts);
      if (result.outcome === 'delivered') return { delivery: current, settlement: { kind: 'delivered' } };
      const settlement = settlementOf(result, this.#next(current, result));
      if (settlement !== 'again-now') return { delivery: current, settlement };
    }
  }

  /**
   * No attempt was made, so none is recorded and the ladder is not climbed. The wait is the delivery's age instead:
   * it grows as the ladder does, and a long outage does not send every delivery around the shortest topic.
   */
  #putOff(delivery: Delivery, result: Failure & { outcome: 'retry' }): Delivered {
    const afterMs = Math.max(0, this.#dependencies.clock() - Date.parse(delivery.created_at));
    const settlement = settlementOf(result, this.#next(delivery, { ...result, afterMs }));
    if (settlement === 'again-now') throw new Error('nothing was reset');
    return { delivery, settlement };
  }

  #next(delivery: Delivery, result: Failure): NextStep {
    const { clock, ladder, expiryMs } = this.#dependencies;
    const createdAt = Date.parse(delivery.created_at);
    return nextStep({ attempts: delivery.attempts, result, createdAt, now: clock(), ladder, expiryMs });
  }

  #placeOf(destination: Destination): Place {
    const known = this.#places.get(destination.id);
    if (known !== undefined) return known;
    const place = { calls: new DestinationCalls(this.#dependencies), unsealed: undefined };
    this.#places.set(destination.id, place);
    return place;
  }

  #unseal(place: Place, destination: Destination): ConnectorDestination | undefined {
    if (place.unsealed?.version === destination.version) return place.unsealed;
    const { unseal, logger } = this.#dependencies;
    try {
      place.unsealed = unseal(destination);
      return place.unsealed;
    } catch (error) {
      const about = { destination: destination.id, version: destination.version, error: messageOf(error) };
      logger.error(about, 'the settings of a destination cannot be unsealed');
      return undefined;
    }
  }
}

function settlementOf(result: Failure, step: NextStep): Settlement | 'again-now' {
  if (step.kind === 'again-now') return 'again-now';
  return step.kind === 'dead' ? step : { ...step, reason: result.reason };
}
