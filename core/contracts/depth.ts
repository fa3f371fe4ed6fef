import type { Json } from '../event/event.ts';

/** True when arrays and objects stand inside each other more than `limit` deep. Looks no deeper than that. */
export function deeperThan(value: Json, limit: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (limit === 0) return true;
  for (const member of Object.values(value)) {
    if (deeperThan(member, limit - 1)) return true;
  }
  return false;
}
