/**
 * Callbacks by signal. Thousands of deliveries follow the signal of one partition, and an `AbortSignal` searches all its
 * listeners for each new one: they share one listener.
 */
const callbacks = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `callback` once the signal is aborted, at once where it is already. Returns the end of the registration. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback();
    return () => {};
  }
  const known = callbacks.get(signal);
  const registered = known ?? new Set();
  if (known === undefined) {
    callbacks.set(signal, registered);
    signal.addEventListener(
      'abort',
      () => {
        for (const each of registered) each();
        registered.clear();
      },
      { once: true },
    );
  }
  registered.add(callback);
  return () => void registered.delete(callback);
}
