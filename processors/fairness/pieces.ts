import { setImmediate as nextTurn } from 'node:timers/promises';

/** Characters of one event's outputs that are read or written at a time: about a millisecond of the thread. */
export const PIECE_CHARS = 128 * 1024;

/** Outputs of fewer characters than this are not worth a turn of their own. */
export const SMALL_CHARS = 16 * 1024;

/**
 * Runs one piece of the work on the outputs of an event, so that a large event does not hold the thread for all of them.
 * `later`: the processor time that other work of this thread will have with the result, ms.
 */
export type InTurn = <T>(workspaceId: string, work: () => T, later?: (result: T) => number) => Promise<T>;

/** For a quick stage: the thread is given back after each piece. */
export const yielding: InTurn = async (_workspaceId, work) => {
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
