import { sumOf } from './load-words.ts';
import type { Load, Warehouse } from './queries.ts';

/** How far a load is that a person asked for. */
export type LoadProgress =
  /** No load began since. */
  | { readonly state: 'waiting' }
  /** Some batches are loaded, and others follow. */
  | { readonly state: 'loading'; readonly rows: number; readonly loads: number }
  /** What had been accepted when it was asked for is loaded. */
  | { readonly state: 'done'; readonly rows: number; readonly loads: number }
  | { readonly state: 'failed'; readonly failure: NonNullable<Warehouse['failure']> };

/** `askedAt`: as the API answered. `loads`: the newest of the live lane. */
export function progressOf(
  askedAt: string,
  { loaded_until, failure }: Pick<Warehouse, 'loaded_until' | 'failure'>,
  loads: readonly Load[],
): LoadProgress {
  const since = Date.parse(askedAt);
  const isSince = (at: string | null) => at !== null && Date.parse(at) >= since;
  const begun = loads.filter(({ status, began_at }) => status === 'loaded' && isSince(began_at));
  const sums = { rows: begun.reduce((sum, { rows }) => sum + sumOf(rows), 0), loads: begun.length };
  // The load is recorded also where nothing waited.
  if (isSince(loaded_until) && begun.length > 0) return { state: 'done', ...sums };
  if (failure !== null && isSince(failure.last_failed_at)) return { state: 'failed', failure };
  return begun.length === 0 ? { state: 'waiting' } : { state: 'loading', ...sums };
}
