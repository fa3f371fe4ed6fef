/**
 * Counts the work that judging one event takes, so that no contract can hold up the others: a schema may refer to
 * itself, and an event may hold thousands of items. The unit is about one subschema applied to one value. Counted,
 * not timed: the verdict must be the same on every replay.
 */
export class WorkMeter {
  /** What may still be spent. Compiled code lowers it directly. */
  left = 0;
  /** Thrown when nothing is left; made once, since a hostile event may cause it every time. */
  readonly exhausted = new Error('too much work');

  reset(): void {
    this.left = MAX_WORK;
  }

  /** Throws `exhausted` when the budget is passed. */
  spend(work: number): void {
    this.left -= work;
    if (this.left < 0) throw this.exhausted;
  }
}

/** Thousands of times what an ordinary event takes; some tenths of a second at worst. */
export const MAX_WORK = 250_000;
