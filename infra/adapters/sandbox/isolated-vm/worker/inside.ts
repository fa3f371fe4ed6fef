/**
 * Long texts cross the border inside an array, which copies them: on their own they would stay outside the heap, unseen
 * by the garbage collector that should free them.
 */
export type Batch = readonly [sizes: string, texts: string];
/** Entries as JSON, a line feed, the outputs. */
export type Answers = readonly [text: string];

/** What a worker calls inside an isolate. */
export interface Inside {
  /**
   * Takes a source of the user's under a number, as a function that evaluates it in given surroundings and answers what
   * it calls `transform`. Evaluates it once: JSON of an `Adopted`.
   */
  adopt(program: number, evaluate: unknown, usesGlobal: boolean): string;
  /**
   * Runs events through a program. Returns its answers, or nothing when an event still waits for a promise: then ask
   * `answers` once the microtasks are drained.
   */
  run(program: number, batch: Batch, keepLogs: boolean): Answers | undefined;
  /** The answers so far. `settle`: the event under way fails. */
  answers(settle: boolean): Answers;
}

/** What is wrong with a source, and the names that it gave to `globalThis` (`self`, `this`) while it was evaluated. */
export interface Adopted {
  readonly fault: Failure | null;
  readonly globals: readonly string[];
}

/** What is known of a failure: its message and where in the user's source it came from, 0 where that is not known. */
export type Failure = readonly [message: string, line: number, column: number];
