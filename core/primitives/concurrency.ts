/**
 * The results of `task` for each item, in the order of the items; at most `limit` tasks run at a time. After a failure no further
 * task begins, and the promise rejects with the first failure once all that had begun are over: a caller that then removes,
 * repeats or closes something has no task of its own beside it.
 */
export async function mapConcurrently<Item, Result>(
  items: readonly Item[],
  limit: number,
  task: (item: Item) => Result | Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const failures: unknown[] = [];
  const waiting = items.entries();
  const work = async () => {
    for (const [at, item] of waiting) {
      try {
        results[at] = await task(item);
      } catch (failure) {
        failures.push(failure);
      }
      if (failures.length > 0) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, work));
  if (failures.length > 0) throw failures[0];
  return results;
}

/**
 * A look-up that many need at a time: a call resolves with the next run that begins after it, and shares that run with all
 * other calls until then. Runs follow one another. A failed run fails those that waited for it alone.
 */
export function sharedByCallers(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  const runNext = async (before: Promise<void> | undefined) => {
    await before?.catch(() => {});
    running = next;
    next = undefined;
    await run();
  };
  return () => {
    next ??= runNext(running);
    return next;
  };
}
