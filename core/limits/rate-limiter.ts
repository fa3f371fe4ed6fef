/**
 * Counts the calls of callers against a limit of so many a minute.
 *
 * Promises: of the calls of one name, at most the limit and what came back since pass in any stretch of time, however
 * many processes ask the same limiter; after a minute without a call the whole limit may be had at once.
 *
 * Errors: `Unavailable` when the engine behind it does not answer; whether the call was counted is then unknown.
 * An implementer must not make callers of different names wait for each other, nor remember idle names for good.
 */
export interface RateLimiter {
  /** Counts one call and answers 0, or counts none and answers after how many ms there is room for one. */
  take(name: string): Promise<number>;
  close(): Promise<void>;
}
