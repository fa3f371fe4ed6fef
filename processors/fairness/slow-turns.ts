import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Clock, OutputRecord } from '@tributary/core';
import Denque from 'denque';
import type { InTurn } from './pieces.ts';

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
export class SlowTurns {
  readonly #elapsed: Clock;
  readonly #isBusy: () => boolean;
  /** Work that waits, by workspace. The first workspace has the next turn. */
  readonly #lines = new Map<string, Denque<() => void>>();
  #laterMs = 0;
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
          this.#laterMs += later(result);
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
  readonly inTurn: InTurn = (workspaceId, work, later) => this.run(workspaceId, work, later);

  async #drain(): Promise<void> {
    await nextTurn();
    while (this.#lines.size > 0) {
      const began = this.#elapsed();
      let held = 0;
      this.#laterMs = 0;
      do {
        this.#takeTurn();
        held = this.#elapsed() - began;
      } while (held + this.#laterMs < SLICE_MS && this.#lines.size > 0);
      const restMs = (held + this.#laterMs) * (this.#isBusy() ? REST_WHILE_BUSY : REST);
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
export function laterMs(emissions: readonly OutputRecord[]): number {
  let characters = 0;
  for (const { value } of emissions) characters += value.length;
  return emissions.length * MS_PER_RECORD + characters * MS_PER_CHARACTER;
}
