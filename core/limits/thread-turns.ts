import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Overloaded } from '../primitives/errors.ts';
import type { Clock } from '../primitives/time.ts';
import { TurnQueue } from './turn-queue.ts';

/** How long queued work uses the thread before it pauses, ms; one piece of work may take a few ms more. */
const SLICE_MS = 2;
/** The pause after a slice, as a multiple of it. */
const PAUSE = 1;
const PAUSE_WHILE_BUSY = 3;
/** Steps of one piece of work, ms. */
const PIECE_MS = 1;

interface ThreadTurnsOptions {
  /** ms of a monotonic clock. */
  readonly elapsed: Clock;
  /** Whether other work needs the thread: then the pauses are longer. */
  readonly isBusy: () => boolean;
}

/**
 * Schedules work on this thread round robin by owner, such as a workspace, one piece at a time, in slices with pauses between
 * them: all owners together use at most a quarter of a thread that other work needs, and each an equal part of that.
 */
export class ThreadTurns {
  readonly #options: ThreadTurnsOptions;
  readonly #queue = new TurnQueue<() => void>();
  #downstreamMs = 0;
  #isRunning = false;

  constructor(options: ThreadTurnsOptions) {
    this.#options = options;
  }

  /**
   * Runs a piece of work when the owner is next. Rejects with the error of the work. `downstream`: the processor time
   * that the result costs other parts of this thread, ms; it counts as part of the slice.
   */
  run<T>(owner: string, work: () => T, downstream: (result: T) => number = () => 0): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#queue.add(owner, () => {
        try {
          const result = work();
          this.#downstreamMs += downstream(result);
          resolve(result);
        } catch (error) {
          reject(error);
        }
      });
      if (this.#isRunning) return;
      this.#isRunning = true;
      void this.#drain();
    });
  }

  /**
   * Runs the steps of an iterator in pieces of a millisecond, or of one step that takes longer. The next step waits for a
   * promise that one gave. Once `disconnected` fires, no further step is run: `Overloaded`.
   */
  async runSteps<T>(
    owner: string,
    steps: Iterator<PromiseLike<unknown> | undefined, T>,
    disconnected?: AbortSignal,
  ): Promise<T> {
    const { elapsed } = this.#options;
    const piece = () => {
      const began = elapsed();
      for (;;) {
        if (disconnected?.aborted) throw new Overloaded('the caller disconnected');
        const step = steps.next();
        if (step.done === true || step.value !== undefined || elapsed() - began >= PIECE_MS) return step;
      }
    };
    for (;;) {
      const step = await this.run(owner, piece);
      if (step.done === true) return step.value;
      await step.value;
    }
  }

  async #drain(): Promise<void> {
    const { elapsed, isBusy } = this.#options;
    await nextTurn();
    while (this.#queue.size > 0) {
      const began = elapsed();
      let ranMs = 0;
      this.#downstreamMs = 0;
      do {
        this.#queue.take()?.item();
        ranMs = elapsed() - began;
      } while (ranMs + this.#downstreamMs < SLICE_MS && this.#queue.size > 0);
      const pauseMs = (ranMs + this.#downstreamMs) * (isBusy() ? PAUSE_WHILE_BUSY : PAUSE);
      await (pauseMs < 1 ? nextTurn() : sleep(pauseMs));
    }
    this.#isRunning = false;
  }
}
