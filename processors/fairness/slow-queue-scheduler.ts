import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, type OutputRecord, ThreadTurns } from '@tributary/core';

/** Schedules the work of the slow queues of this process: at most a quarter of a thread that they share with quick stages. */
export class SlowQueueScheduler extends ThreadTurns {
  /** `elapsed`: ms of a monotonic clock. */
  constructor(elapsed: Clock, isBusy: () => boolean) {
    super({ elapsed, isBusy });
  }

  /** `run`, bound. */
  readonly runPiece: RunPiece = (workspaceId, work, downstream) => this.run(workspaceId, work, downstream);
}

/** Processor time of one output record, ms: to write and read it, and as a delivery its attempt, its outcome, its history, its counts. */
const MS_PER_RECORD = 0.25;
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
