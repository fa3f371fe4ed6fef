import {
  type Clock,
  type Delivery,
  type DeliveryResult,
  type Destination,
  holdStep,
  iso,
  type Ladder,
  nextStep,
  withFields,
} from '@tributary/core';
import type { Settlement } from './settlement.ts';
import { closedBecause, pausedBecause } from './target.ts';

export interface ClimbDependencies {
  readonly clock: Clock;
  readonly ladder: Ladder;
  readonly expiryMs: number;
}

/** The delivery as it goes on, and how. */
export interface Delivered {
  readonly delivery: Delivery;
  readonly settlement: Settlement;
}

/** Nothing is delivered to a destination that is gone or disabled. */
export function closedTo(delivery: Delivery, destination: Destination | undefined): Delivered {
  const reason = closedBecause(destination);
  return { delivery, settlement: { kind: 'dead', cause: 'destination', reason } };
}

type Failure = Exclude<DeliveryResult, { outcome: 'delivered' }>;

/** How deliveries go on that were not delivered: up the retry ladder, or not. */
export class Climb {
  readonly #dependencies: ClimbDependencies;

  constructor(dependencies: ClimbDependencies) {
    this.#dependencies = dependencies;
  }

  /** After an attempt that the delivery holds already. */
  after(delivery: Delivery, result: Failure): Settlement | 'again-now' {
    const { clock, ladder, expiryMs } = this.#dependencies;
    const createdAt = Date.parse(delivery.created_at);
    const { attempts } = delivery;
    const step = nextStep({ attempts, result, createdAt, now: clock(), ladder, expiryMs });
    if (step.kind === 'again-now') return 'again-now';
    return step.kind === 'dead' ? step : { ...step, reason: result.reason };
  }

  /**
   * No attempt was made, so none is recorded and the ladder is not climbed. The wait is the delivery's age instead:
   * it grows as the ladder does, and a long outage does not send every delivery around the shortest topic. It is not
   * longer than the trouble has lasted: what waited in a backlog grew old without any.
   */
  putOff(delivery: Delivery, reason: string, troubleMs = Number.POSITIVE_INFINITY): Delivered {
    const ageMs = Math.max(0, this.#dependencies.clock() - Date.parse(delivery.created_at));
    const settlement = this.after(delivery, {
      outcome: 'retry',
      reason,
      afterMs: Math.min(ageMs, troubleMs),
    });
    if (settlement === 'again-now') throw new Error('nothing was reset');
    return { delivery, settlement };
  }

  /**
   * The destination is paused: the delivery waits as long as that takes. It keeps its attempts, and its time to expire
   * begins anew each time, so that it gets all of it once the destination goes on.
   */
  hold(delivery: Delivery, destination: Pick<Destination, 'updated_at' | 'paused_because'>): Delivered {
    const { clock, ladder } = this.#dependencies;
    const now = clock();
    const { label, ms } = holdStep(ladder, now - Date.parse(destination.updated_at));
    const settlement = {
      kind: 'retry',
      label,
      notBefore: now + ms,
      reason: pausedBecause(destination),
    } as const;
    return { delivery: withFields(delivery, { created_at: iso(now) }), settlement };
  }
}
