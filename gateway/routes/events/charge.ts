import type { WriteKey } from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';
import { tooManyRequests } from '../../http/errors.ts';

/**
 * Counts events against what their key may send: each once, before it is looked at, as what is refused costs as well.
 * 429, and none is counted, for a key that sends more than it may; then none of them may be taken.
 */
export function charge({ limits }: Pick<GatewayDependencies, 'limits'>, key: WriteKey, events: number): void {
  const wait = events === 0 ? 0 : (limits?.events?.take(key.id, events) ?? 0);
  if (wait > 0) throw tooManyRequests(Math.ceil(wait / 1_000));
}
