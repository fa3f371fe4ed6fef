/** The longest timer of Node; callers that wait for longer check the clock in between. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Resolves after about `ms` or, without an error, when the signal fires. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(Math.max(ms, 0), MAX_TIMER_MS));
    signal.addEventListener('abort', done);
  });
}

/** The outcome of `work`; rejects with the signal's reason when that fires first, while `work` continues. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = () => reject(signal.reason);
    if (signal.aborted) aborted();
    else signal.addEventListener('abort', aborted);
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', aborted));
  });
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
