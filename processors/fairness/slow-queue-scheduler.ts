import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Clock, OutputRecord } from '@tributary/core';
import Denque from 'denque';

/** How long the slow queues use the thread before they pause, ms; one piece of work may take a few ms more. */
const SLICE_MS = 2;
/** The pause after a slice, as a multiple of it. */
const PAUSE = 1;
const PAUSE_WHILE_BUSY = 3;

/**
 * Schedules the work of the slow queues of this process round robin by workspace, one piece at a time, in slices of the
 * thread with pauses between them. Pauses are longer while other events pass, so that the slow queues use at most a quarter
 * of a thread that they share with the quick stages.
 */
export class SlowQueueScheduler {
  readonly #elapsed: Clock;
  readonly #isBusy: () => boolean;
  /** Queued work by workspace. The first workspace is next. */
  readonly #lines = new Map<string, Denque<() => void>>();
  #downstreamMs = 0;
  #isRunning = false;

  /** `elapsed`: ms of a monotonic clock. */
  constructor(elapsed: Clock, isBusy: () => boolean) {
    this.#elapsed = elapsed;
    this.#isBusy = isBusy;
  }

  /**
   * Runs a piece of work when the workspace is next. Rejects with the error of the work. `downstream`: the processor time
   * that the result costs other parts of this thread, ms; it counts as part of the slice.
   */
  run<T>(workspaceId: string, work: () => T, downstream: (result: T) => number = () => 0): Promise<T> {
    return new Promise((resolve, reject) => {
      const line = this.#lines.get(workspaceId) ?? new Denque<() => void>();
      this.#lines.set(workspaceId, line);
      line.push(() => {
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

  /** `run`, bound. */
  readonly runPiece: RunPiece = (workspaceId, work, downstream) => this.run(workspaceId, work, downstream);

  async #drain(): Promise<void> {
    await nextTurn();
    while (this.#lines.size > 0) {
      const began = this.#elapsed();
      let ranMs = 0;
      this.#downstreamMs = 0;
      do {
        this.#runNext();
        ranMs = this.#elapsed() - began;
      } while (ranMs + this.#downstreamMs < SLICE_MS && this.#lines.size > 0);
      const pauseMs = (ranMs + this.#downstreamMs) * (this.#isBusy() ? PAUSE_WHILE_BUSY : PAUSE);
      await (pauseMs < 1 ? nextTurn() : sleep(pauseMs));
    }
    this.#isRunning = false;
  }

  #runNext(): void {
    for (const [workspaceId, line] of this.#lines) {
      const work = line.peekFront();
      line.shift();
      this.#lines.delete(workspaceId);
      if (line.length > 0) this.#lines.set(workspaceId, line); // reinserted behind the others
      work?.();
      return;
    }
  }
}

/** Processor time of one output record, ms: to serialize it, to append it and to read it in the next stage. */
const MS_PER_RECORD = 0.05;
/**
 * 20 ns are of the next stages, 60 on slow cores; the rest stands for the broker and the network, which all workspaces share
 * as well. With half of it, another workspace's p99 beside large outputs was 330 to 516 ms on Kafka and two slow cores; it
 * is 272.
 */
const DOWNSTREAM_MS_PER_CHARACTER = 200e-6;

/** Processor time that output records cost behind the stage, ms. */
export function downstreamMs(outputRecords: readonly OutputRecord[]): number {
  let characters = 0;
  for (const { value } of outputRecords) characters += value.length;
  return outputRecords.length * MS_PER_RECORD + characters * DOWNSTREAM_MS_PER_CHARACTER;
}

/** Characters of one event's outputs in one piece of work: about a millisecond of the thread. */
export const PIECE_CHARS = 128 * 1024;

/** Outputs below this are too small for a piece of their own. */
export const SMALL_CHARS = 16 * 1024;

/**
 * Runs one piece of the work on an event's outputs, so that a large event does not block the thread for all of them.
 * `downstream`: the processor time that the result costs other parts of this thread, ms.
 */
export type RunPiece = <T>(
  workspaceId: string,
  work: () => T,
  downstream?: (result: T) => number,
) => Promise<T>;

/** For quick stages: yields to the event loop after each piece. */
export const yielding: RunPiece = async (_workspaceId, work) => {
  const result = work();
  await nextTurn();
  return result;
};

/** At least one item from `from` on, up to a total of `chars` characters. */
export function pieceOf(items: readonly string[], from: number, chars = PIECE_CHARS): readonly string[] {
  let taken = 0;
  let to = from;
  do {
    taken += items[to]?.length ?? 0;
    to += 1;
  } while (to < items.length && taken < chars);
  return items.slice(from, to);
}
