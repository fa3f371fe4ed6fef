import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Clock, Emission } from '@tributary/core';
import Denque from 'denque';

/** How long the slow queues hold the thread before they rest, ms; one piece of work may take a few more. */
const SLICE_MS = 2;
/** The rest after a slice, as a multiple of it. */
const REST = 1;
const REST_WHILE_BUSY = 3;

/**
 * The turns of workspaces in the slow queues of this process: one piece of work of each after the other, in slices of
 * the thread with a rest between them. The rest is longer while other events pass, so that the slow queues have at most
 * a quarter of a thread that they share with the quick ones.
 */
export class SlowQueueScheduler {
  readonly #elapsed: Clock;
  readonly #isBusy: () => boolean;
  /** Work that waits, by workspace. The first workspace has the next turn. */
  readonly #lines = new Map<string, Denque<() => void>>();
  #downstreamMs = 0;
  #isRunning = false;

  /** `elapsed`: ms that never go back. */
  constructor(elapsed: Clock, isBusy: () => boolean) {
    this.#elapsed = elapsed;
    this.#isBusy = isBusy;
  }

  /**
   * Does a piece of work when it is the workspace's turn. Rejects with what the work throws. `later`: the processor time
   * that others of this thread will have with the result, ms; the rest is longer by it.
   */
  run<T>(workspaceId: string, work: () => T, later: (result: T) => number = () => 0): Promise<T> {
    return new Promise((resolve, reject) => {
      const line = this.#lines.get(workspaceId) ?? new Denque<() => void>();
      this.#lines.set(workspaceId, line);
      line.push(() => {
        try {
          const result = work();
          this.#downstreamMs += later(result);
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

  /** `run`, to be handed to a part of a stage. */
  readonly runPiece: RunPiece = (workspaceId, work, later) => this.run(workspaceId, work, later);

  async #drain(): Promise<void> {
    await nextTurn();
    while (this.#lines.size > 0) {
      const began = this.#elapsed();
      let held = 0;
      this.#downstreamMs = 0;
      do {
        this.#takeTurn();
        held = this.#elapsed() - began;
      } while (held + this.#downstreamMs < SLICE_MS && this.#lines.size > 0);
      const restMs = (held + this.#downstreamMs) * (this.#isBusy() ? REST_WHILE_BUSY : REST);
      await (restMs < 1 ? nextTurn() : sleep(restMs));
    }
    this.#isRunning = false;
  }

  #takeTurn(): void {
    for (const [workspaceId, line] of this.#lines) {
      const work = line.peekFront();
      line.shift();
      this.#lines.delete(workspaceId);
      if (line.length > 0) this.#lines.set(workspaceId, line); // behind the others
      work?.();
      return;
    }
  }
}

/** Processor time of one record that a stage emits: to write it, to append it and to take it in the next stage, ms. */
const MS_PER_RECORD = 0.05;
const MS_PER_CHARACTER = 20e-6;

/** What others have to do with what a stage emitted, ms. */
export function downstreamMs(emissions: readonly Emission[]): number {
  let characters = 0;
  for (const { value } of emissions) characters += value.length;
  return emissions.length * MS_PER_RECORD + characters * MS_PER_CHARACTER;
}

/** Characters of one event's outputs that are read or written at a time: about a millisecond of the thread. */
export const PIECE_CHARS = 128 * 1024;

/** Outputs of fewer characters than this are not worth a turn of their own. */
export const SMALL_CHARS = 16 * 1024;

/**
 * Runs one piece of the work on the outputs of an event, so that a large event does not hold the thread for all of them.
 * `later`: the processor time that other work of this thread will have with the result, ms.
 */
export type RunPiece = <T>(workspaceId: string, work: () => T, later?: (result: T) => number) => Promise<T>;

/** For a quick stage: the thread is given back after each piece. */
export const yielding: RunPiece = async (_workspaceId, work) => {
  const result = work();
  await nextTurn();
  return result;
};

/** The items from `from` on that have so many characters together, one at least. */
export function pieceOf(items: readonly string[], from: number, chars = PIECE_CHARS): readonly string[] {
  let held = 0;
  let to = from;
  do {
    held += items[to]?.length ?? 0;
    to += 1;
  } while (to < items.length && held < chars);
  return items.slice(from, to);
}
