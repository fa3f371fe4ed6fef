/** Weight of the newest call in the means. */
const NEWEST = 0.2;

/** Held to be true before any call has ended, ms. */
const UNKNOWN_CALL_MS = 20;

/** What stands before a delivery that would come now. */
export interface Ahead {
  /** Deliveries that wait for a call, and calls under way. */
  readonly waiting: number;
  readonly underWay: number;
  /** How long the oldest of those calls takes already, ms. */
  readonly oldestCallMs: number;
  /** Calls at a time. */
  readonly calls: number;
  readonly perSecond: number | undefined;
  /** How long the next call has to wait for its pace, ms. */
  readonly paceMs: number;
}

/** How long calls to a destination take and how much they carry, and what that means for who waits. */
export class CallTimes {
  #callMs: number | undefined;
  #deliveries = 1;

  get areKnown(): boolean {
    return this.#callMs !== undefined;
  }

  ended(durationMs: number, deliveries: number): void {
    const first = !this.areKnown;
    this.#callMs = first ? durationMs : mean(this.#callMs ?? UNKNOWN_CALL_MS, durationMs);
    this.#deliveries = first ? deliveries : mean(this.#deliveries, deliveries);
  }

  /** How long a call takes, ms: one that is under way for longer than others took says so before it ends. */
  callMs(oldestCallMs: number): number {
    return Math.max(this.#callMs ?? UNKNOWN_CALL_MS, oldestCallMs);
  }

  /** What each delivery adds to the wait of those behind it, ms; by the pace alone where calls end as soon as they can. */
  eachMs({ oldestCallMs, calls, perSecond }: Ahead, byPaceAlone = false): number {
    const byPace = perSecond === undefined ? 0 : 1_000 / perSecond;
    const byCalls = byPaceAlone ? 0 : this.callMs(oldestCallMs) / calls;
    return Math.max(byPace, byCalls) / this.#deliveries;
  }

  /** How long a delivery that came now would wait for its call to begin, ms. */
  waitMs(ahead: Ahead, byPaceAlone = false): number {
    const { waiting, underWay, calls, paceMs } = ahead;
    const deliveriesAhead = waiting + Math.max(0, underWay + 1 - calls) * this.#deliveries;
    return paceMs + deliveriesAhead * this.eachMs(ahead, byPaceAlone);
  }
}

function mean(before: number, newest: number): number {
  return before + (newest - before) * NEWEST;
}
