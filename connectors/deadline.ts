import { Stopped, TimedOut } from './errors.ts';

/**
 * Runs `work` under a signal that is aborted with `TimedOut` after `timeoutMs`, or with `Stopped` when `outer` is.
 * `work` must settle soon after its signal; the long-lived `outer` keeps nothing of a finished call.
 */
export async function withDeadline<T>(
  outer: AbortSignal,
  timeoutMs: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const stop = () => controller.abort(new Stopped('stopped'));
  const timer = setTimeout(() => controller.abort(new TimedOut('timed out')), timeoutMs);
  outer.addEventListener('abort', stop, { once: true });
  try {
    if (outer.aborted) stop();
    controller.signal.throwIfAborted();
    return await work(controller.signal);
  } finally {
    clearTimeout(timer);
    outer.removeEventListener('abort', stop);
  }
}

/**
 * Settles as `work` does, or rejects with the signal's reason as soon as it is aborted: for drivers that cannot be
 * called off. What `work` does after that is nobody's; whoever began it ends the connection it runs on.
 */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const leave = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', leave, { once: true });
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
