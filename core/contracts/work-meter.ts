import type { ErrorObject } from 'ajv';

/**
 * Counts the work that judging one event takes, so that no contract can hold up the others: a schema may refer to
 * itself, and an event may hold thousands of items. The unit is about 10 ns of one core, what a simple check of
 * compiled code takes. Counted, not timed: the verdict must be the same on every replay.
 */
export class WorkMeter {
  /** What may still be spent. Compiled code lowers it directly. */
  left = 0;
  /** What the compiled function that was stopped had found. */
  found: readonly ErrorObject[] = NONE;
  /** Thrown when nothing is left; made once, since a hostile event may cause it every time. */
  readonly exhausted = new Error('too much work');

  /** Begins anew, with so much to spend. */
  reset(work = MAX_WORK): void {
    this.left = work;
    this.found = NONE;
  }

  /** Throws `exhausted` when the budget is passed. */
  spend(work: number): void {
    this.left -= work;
    if (this.left < 0) throw this.exhausted;
  }

  /** The same for compiled code, which shows the errors it has. */
  stop(errors: readonly ErrorObject[] | null): Error {
    this.found = errors ?? NONE;
    return this.exhausted;
  }

  /**
   * Pays for the errors from `seen` on and answers how many there are now: fewer than were seen where an alternative
   * was met after others had failed. To make one, to word it and to hold the place it is about all take their time,
   * `factor` times as much in code that is interpreted.
   */
  payErrors(errors: readonly ErrorObject[] | null, seen: number, factor: number): number {
    if (errors === null) return 0;
    let work = 0;
    for (let at = seen; at < errors.length; at++) {
      // Under `not` and its like errors are counted, not made.
      work += factor * WORK_PER_ERROR + pathWork(errors[at]?.instancePath?.length ?? 0);
    }
    this.left -= work;
    if (this.left < 0) throw this.stop(errors);
    return errors.length;
  }
}

const NONE: readonly ErrorObject[] = [];

const WORK_PER_ERROR = 20;
/** Every 64 characters of a path are as many units: a field's name may be as long as the event, and is escaped. */
function pathWork(length: number): number {
  return length & ~63;
}

/** Hundreds of times what an ordinary event takes; a millisecond, or two where the count is least exact. */
export const MAX_WORK = 100_000;
