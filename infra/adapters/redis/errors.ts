import { messageOf, TributaryError, Unavailable } from '@tributary/core';

/**
 * `Unavailable` for everything that Redis or the way to it answers: no input is at fault for a server that is gone,
 * loads, has no memory, lets nobody in or was misconfigured, and all of it passes by itself or by an operator's hand.
 * Errors of ours and of the language stay what they are.
 */
export function translateRedisError(error: unknown): unknown {
  if (error instanceof TributaryError) return error;
  if (error instanceof TypeError || error instanceof RangeError) return error;
  return new Unavailable(`Redis: ${messageOf(error)}`, { cause: error });
}

/** True for refusals that waiting does not heal: wrong credentials, or rights that are missing. */
export function isRefusal(error: unknown): boolean {
  return /^(WRONGPASS|NOAUTH|NOPERM)\b/.test(messageOf(error));
}
