import { iso } from '@tributary/core';
import { invalidRequest } from '../../errors/api-error.ts';
import { parseTime } from '../../resources/values.ts';

/** When a new key is to expire, in UTC; null for never. 400 for what is no time, and for one that is not to come. */
export function expiryOf(wanted: string | undefined, now: number): string | null {
  const at = parseTime('/expires_at', wanted);
  if (at === undefined) return null;
  if (at <= now) throw invalidRequest({ path: '/expires_at', message: 'must be in the future' });
  return iso(at);
}
