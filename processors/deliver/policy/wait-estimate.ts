/** Weight of the newest request in the means. */
const NEWEST = 0.2;

/** Assumed duration before any request has ended, ms. */
const UNKNOWN_REQUEST_MS = 20;

/** The work of a destination that stands before a delivery that comes now. */
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

  /** How long a delivery that came now would wait for its request to begin, ms. */
  waitMs(load: QueueLoad, byRateAlone = false): number {
    const { queued, requests, concurrency, rateWaitMs } = load;
    const ahead = queued + Math.max(0, requests + 1 - concurrency) * this.#deliveries;
    return rateWaitMs + ahead * this.eachMs(load, byRateAlone);
  }
}

function mean(before: number, newest: number): number {
  return before + (newest - before) * NEWEST;
}
