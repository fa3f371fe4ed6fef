import { hopStep, type RetrySchedule, type RetryStep } from '@tributary/core';

/** A delivery that its destination has no room for now. Times are epoch ms. */
interface Deferral {
  readonly now: number;
  /** Its wait behind the deliveries that the process holds for the destination, ms. */
  readonly waitMs: number;
  /** Share of one delivery in that wait, ms. */
  readonly eachMs: number;
  /** Behind the scheduled times of all deliveries deferred before. */
  readonly queueTail: number;
  /** The scheduled time of an earlier deferral, and since when the delivery has been deferred. */
  readonly scheduledAt: number | undefined;
  readonly since: number;
  /** Until when the destination asked to wait. */
  readonly until?: number | undefined;
}

/** When the request of a deferred delivery is expected to begin, and the new queue tail. */
interface Schedule {
  readonly at: number;
  readonly queueTail: number;
}

/**
 * Schedules a delivery behind those deferred before it. One that comes back before its scheduled time and finds no room keeps
 * that time, unless there is an earlier one: the destination has become quicker, or was idle. One that finds none at its
 * scheduled time gets a new one, at twice the time that it has waited at least: the destination is slower than estimated.
 */
export function scheduleDeferral(question: Deferral): Schedule {
  const { now, waitMs, eachMs, queueTail, scheduledAt = now, since, until = now } = question;
  const next = Math.max(queueTail, now + waitMs);
  const at = Math.max(
    until,
    scheduledAt > now ? Math.min(scheduledAt, next) : Math.max(next, now + (now - since)),
  );
  return { at, queueTail: Math.max(queueTail, at + eachMs) };
}

/**
 * The delay after which a deferred delivery comes back: the longest within half of the time to its scheduled time, as that is an
 * estimate, and the destination may have room much earlier. Where the destination asked for a longer wait, a delay that leads
 * to its end, if need be a little later, so that few records are written for one wait.
 */
export function deferralDelay(
  delays: RetrySchedule,
  {
    now,
    at,
    until = now,
  }: { readonly now: number; readonly at: number; readonly until?: number | undefined },
): RetryStep {
  const askedMs = until - now;
  const within = delays.findLast(({ ms }) => ms <= (at - now) / 2);
  return within !== undefined && within.ms >= askedMs ? within : hopStep(delays, askedMs);
}

/**
 * How long a batch is kept open here for deliveries that are back at the end of their interval, ms: the last wait in the log
 * ends up to a good second late. They need no room in the window, as none of them stays for long.
 */
export const TOGETHER_MS = 1_500;

/** How much later than asked for a wait in the log may end, ms: see `hopStep`. */
function mostLateMs(intervalMs: number): number {
  return Math.max(1_000, intervalMs * 0.02);
}

/**
 * How long a delivery of this time is to wait for others in a batch that is not full, ms: until the interval has ended in which
 * its destination collects deliveries, and all deliveries of the interval are back from the log. Intervals are counted from
 * 1970, so that all processes agree on them, also after a restart. Negative afterwards.
 */
export function collectingMs(createdAt: number, intervalMs: number, now: number): number {
  const end = (Math.floor(createdAt / intervalMs) + 1) * intervalMs;
  const lateMs = mostLateMs(intervalMs);
  const leftMs = end + lateMs - now;
  // A clock may have been ahead.
  return leftMs > intervalMs + lateMs ? 0 : leftMs;
}

/**
 * The step of that wait in the log. First until hardly before its end, so that few records are written for a long wait, and then
 * exactly, so that the deliveries of an interval are back together.
 */
export function collectingStep(delays: RetrySchedule, leftMs: number, intervalMs: number): RetryStep {
  const lateMs = mostLateMs(intervalMs);
  return hopStep(delays, leftMs > 2 * lateMs ? leftMs - lateMs : leftMs);
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
  /** The geometric mean, which a few slow requests hardly change. */
  #usualMs: number | undefined;
  #deliveries = 1;

  requestEnded(durationMs: number, deliveries: number): void {
    const isFirst = this.#requestMs === undefined;
    this.#deliveries = isFirst ? deliveries : mean(this.#deliveries, deliveries);
    this.#requestMs = this.#requestMs === undefined ? durationMs : mean(this.#requestMs, durationMs);
    const log = Math.log(Math.max(1, durationMs));
    this.#usualMs = Math.exp(this.#usualMs === undefined ? log : mean(Math.log(this.#usualMs), log));
  }

  /** Duration of a request, ms. One under way for longer than earlier ones counts before it ends. */
  #requestMsNow({ oldestRequestMs }: QueueLoad): number {
    return Math.max(this.#requestMs ?? UNKNOWN_REQUEST_MS, oldestRequestMs);
  }

  /** How long a new delivery would wait for its request to begin, ms. */
  waitMs(load: QueueLoad): number {
    return this.#waitMs(load, this.#requestMsNow(load));
  }

  /**
   * That wait, and the share of one delivery in the wait of later ones, if requests take as long as usual. Deliveries that are
   * deferred in a hiccup would come back late by its duration. Without an earlier request the one under way counts.
   */
  usual(load: QueueLoad): { readonly waitMs: number; readonly eachMs: number } {
    const requestMs = this.#usualMs ?? this.#requestMsNow(load);
    return { waitMs: this.#waitMs(load, requestMs), eachMs: this.#eachMs(load, requestMs) };
  }

  #eachMs({ concurrency, perSecond }: QueueLoad, requestMs: number): number {
    const byRate = perSecond === undefined ? 0 : 1_000 / perSecond;
    return Math.max(byRate, requestMs / concurrency) / this.#deliveries;
  }

  #waitMs(load: QueueLoad, requestMs: number): number {
    const { queued, requests, concurrency, rateWaitMs } = load;
    const ahead = queued + Math.max(0, requests + 1 - concurrency) * this.#deliveries;
    return rateWaitMs + ahead * this.#eachMs(load, requestMs);
  }
}

function mean(before: number, newest: number): number {
  return before + (newest - before) * NEWEST;
}
