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
