/*
 * All that is counted instead of timed, in two currencies. Compile work bounds the patterns of a definition when a contract
 * is made; evaluation work bounds every event. Counted, so that every gateway gives the same answer and every replay the
 * same verdict, on whatever machine.
 */

/** Compile work that the patterns of a new contract may take. A unit is about 25 us of one core. */
export const MAX_COMPILE_WORK = 2_500;

/**
 * Units that evaluating one event may take. A unit is about 10 ns of one core, so this is a millisecond, or two where the
 * count is least exact: hundreds of times what an ordinary event takes.
 */
export const MAX_WORK = 100_000;

/**
 * Counts the work of evaluating one event, so that no contract delays the events of others: a schema may refer to itself,
 * and an event may hold thousands of items.
 */
export class WorkMeter {
  /** Units left to spend. */
  left = 0;
  /** Thrown when nothing is left; one instance, since a hostile event may cause it every time. */
  readonly exhausted = new Error('too much work');

  /** Starts an evaluation with so many units to spend. */
  reset(work = MAX_WORK): void {
    this.left = work;
  }

  /** Throws `exhausted` when the budget is exceeded. */
  spend(work: number): void {
    this.left -= work;
    if (this.left < 0) throw this.exhausted;
  }
}

/** Takes all steps at once. */
export function lastOf<Result>(steps: Iterator<unknown, Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
