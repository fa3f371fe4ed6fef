import type { Destination } from '../catalog/entities.ts';
import { type Counters, measured } from '../ports/counters.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/**
 * About how many events a workspace accepted for the environments of a warehouse since a time, whatever its rules choose: by the
 * minute within the last hour, else by the hour. Of the interval that the time is in a share counts.
 */
export async function acceptedSince(
  counters: Pick<Counters, 'funnel'>,
  { workspace_id: workspaceId, environments }: Pick<Destination, 'workspace_id' | 'environments'>,
  since: number,
  now: number,
): Promise<number> {
  if (since >= now) return 0;
  const [interval, step] =
    now - since < HOUR_MS ? (['minute', MINUTE_MS] as const) : (['hour', HOUR_MS] as const);
  const from = Math.floor(since / step) * step;
  const to = (Math.floor(now / step) + 1) * step;
  const [environment] = environments?.length === 1 ? environments : [];
  const filter = environment === undefined ? {} : { environment };
  const rows = await counters.funnel({ workspaceId, interval, from, to, filter, groupBy: [] });
  const counted = rows.map(({ start, counts }) => {
    // The current interval has its counts from its first moment until now.
    const end = Math.min(start + step, now);
    const share = end <= start ? 1 : (end - Math.max(start, since)) / (end - start);
    return measured(counts, 'accepted') * Math.min(1, Math.max(0, share));
  });
  return Math.round(counted.reduce((sum, count) => sum + count, 0));
}
