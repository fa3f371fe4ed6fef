/**
 * Does `work` on every item, at most `atOnce` at a time. After a failure, or once the signal fired, no further item is
 * begun; settles when all that were begun have ended, and rejects with the first failure.
 */
export async function inTurns<T>(
  items: readonly T[],
  atOnce: number,
  signal: AbortSignal,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  const waiting = items.values();
  const worker = async () => {
    for (const item of waiting) {
      try {
        signal.throwIfAborted();
        await work(item);
      } catch (failure) {
        failures.push(failure);
      }
      if (failures.length > 0) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
}
