import type { RetrySchedule, RetryStep } from '@tributary/core';

/** A delivery that its destination has no room for now. Times are epoch ms. */
export interface SlotQuestion {
  readonly now: number;
  /** Its wait behind the deliveries that the process holds for the destination, ms. */
  readonly waitMs: number;
  /** Share of one delivery in that wait, ms. */
  readonly eachMs: number;
  /** Behind the slots of all deliveries deferred before. */
  readonly queueTail: number;
  /** The slot of its first deferral. */
  readonly slot: number | undefined;
  readonly schedule: RetrySchedule;
}

export interface ScheduledSlot {
  /** When its request is expected to begin; kept when it is deferred again. */
  readonly at: number;
  /**
   * The retry step in which the delivery waits: the longest that ends before its slot, so that the destination never runs
   * idle. Where none does, the shortest, which ends after the slot.
   */
  readonly step: RetryStep;
  readonly queueTail: number;
}

/**
 * Schedules a delivery behind those deferred before it. The slot is an estimate: a delivery that comes back is sent as
 * soon as there is room, and one that finds none keeps its slot, so it is deferred ever more briefly and rarely.
 */
export function scheduleSlot(question: SlotQuestion): ScheduledSlot {
  const { now, waitMs, eachMs, queueTail, slot, schedule } = question;
  const at = slot ?? Math.max(queueTail, now + waitMs);
  return {
    at,
    step: schedule.findLast(({ ms }) => ms <= at - now) ?? schedule[0],
    queueTail: slot === undefined ? at + eachMs : queueTail,
  };
}

/** Weight of the newest request in the means. */
const NEWEST = 0.2;

/** Assumed duration before any request has ended, ms. */
const UNKNOWN_REQUEST_MS = 20;

/** The work of a destination ahead of a new delivery. */
export interface QueueLoad {
  /** Queued deliveries, and requests under way. */
  readonly queued: number;
  readonly requests: number;
  /** Age of the oldest of those requests, ms. */
  readonly oldestRequestMs: number;
  /** Requests at a time. */
  readonly concurrency: number;
  readonly perSecond: number | undefined;
  /** Wait of the next request for the rate limit, ms. */
  readonly rateWaitMs: number;
}

/** Estimates waits from the duration and size of a destination's requests. */
export class WaitEstimate {
  #requestMs: number | undefined;
  #deliveries = 1;

  get isKnown(): boolean {
    return this.#requestMs !== undefined;
  }

  requestEnded(durationMs: number, deliveries: number): void {
    this.#deliveries = this.isKnown ? mean(this.#deliveries, deliveries) : deliveries;
    this.#requestMs = this.#requestMs === undefined ? durationMs : mean(this.#requestMs, durationMs);
  }

  /** Duration of a request, ms. One under way for longer than earlier ones counts before it ends. */
  requestMs(oldestRequestMs: number): number {
    return Math.max(this.#requestMs ?? UNKNOWN_REQUEST_MS, oldestRequestMs);
  }

  /** Share of one delivery in the wait of later ones, ms; `byRateAlone` leaves out the duration of requests. */
  eachMs({ oldestRequestMs, concurrency, perSecond }: QueueLoad, byRateAlone = false): number {
    const byRate = perSecond === undefined ? 0 : 1_000 / perSecond;
    const byDuration = byRateAlone ? 0 : this.requestMs(oldestRequestMs) / concurrency;
    return Math.max(byRate, byDuration) / this.#deliveries;
  }

  /** How long a new delivery would wait for its request to begin, ms. */
  waitMs(load: QueueLoad, byRateAlone = false): number {
    const { queued, requests, concurrency, rateWaitMs } = load;
    const ahead = queued + Math.max(0, requests + 1 - concurrency) * this.#deliveries;
    return rateWaitMs + ahead * this.eachMs(load, byRateAlone);
  }
}

function mean(before: number, newest: number): number {
  return before + (newest - before) * NEWEST;
}
