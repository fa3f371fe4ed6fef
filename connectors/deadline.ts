import { Deadlines, type Ending } from './deadlines.ts';

/**
 * Runs `work` under a signal that is aborted with `TimedOut` after `timeoutMs`, or with `Stopped` when `outer` is.
 * `work` must settle soon after its signal; the long-lived `outer` keeps nothing of a finished call.
 */
export async function withDeadline<T>(
  outer: AbortSignal,
  timeoutMs: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadlines = new Deadlines(timeoutMs);
  const deadline = deadlines.begin(outer);
  try {
    deadline.throwIfAborted();
    return await work(deadline.signal);
  } finally {
    deadlines.end(deadline);
  }
}

/**
 * Settles as `work` does, or rejects with the signal's reason as soon as it is aborted: for drivers that cannot be
 * called off. What `work` does after that is nobody's; whoever began it ends the connection it runs on.
 */
export async function untilAborted<T>(work: Promise<T>, signal: Ending): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const leave = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', leave);
  // Both may reject after the other settled the race.
  aborted.promise.catch(() => undefined);
  work.catch(() => undefined);
  try {
    if (signal.aborted) leave();
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}
