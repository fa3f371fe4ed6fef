import type { Destination } from '../catalog/entities.ts';
import { type DestinationHealth, type HealthBoard, mergeHealth } from '../delivery/destination-health.ts';
import type { EventLog } from '../log/event-log.ts';
import { TOPIC } from '../log/topics.ts';
import { type Counters, measured } from '../ports/counters.ts';
import type { History } from '../ports/history.ts';
import { LIVE_LANE, type LoadRecord, newestLoad } from './loads.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

interface StandingSources {
  readonly healthBoard: Pick<HealthBoard, 'read'>;
  readonly history: Pick<History, 'list'>;
  readonly counters: Pick<Counters, 'funnel'>;
  readonly log: Pick<EventLog, 'end'>;
}

/** How far a warehouse is loaded. */
export interface WarehouseStanding {
  /** Epoch ms: what was accepted before is loaded. Undefined while nothing is. */
  readonly loadedUntil: number | undefined;
  /** Events that were accepted since, about. */
  readonly waiting: number;
  /** Undefined while no process reports it. */
  readonly health: DestinationHealth | undefined;
  /** Of the live lane. */
  readonly newest: LoadRecord | undefined;
}

/** The loader knows best; while none reports, the newest load in history tells. */
export async function readStanding(
  { healthBoard, history, counters, log }: StandingSources,
  warehouse: Destination,
  now: number,
): Promise<WarehouseStanding> {
  const { id, workspace_id: workspaceId, created_at } = warehouse;
  const [reports, newest] = await Promise.all([
    healthBoard.read(workspaceId, [id]),
    newestLoad(history, warehouse, LIVE_LANE),
  ]);
  const health = mergeHealth(reports);
  const recorded = newest?.until === undefined ? 0 : Date.parse(newest.until);
  const loadedUntil = Math.max(recorded, health?.loaded_until ?? 0) || undefined;
  const since = loadedUntil ?? Date.parse(created_at);
  const isBehind = newest === undefined || (await hasRecordsBehind(log, newest));
  const waiting = isBehind ? await acceptedSince(counters, warehouse, since, now) : 0;
  return { loadedUntil, waiting, health, newest };
}

async function hasRecordsBehind(log: Pick<EventLog, 'end'>, { ranges }: LoadRecord): Promise<boolean> {
  const behind = ranges
    .filter(({ topic }) => topic === TOPIC.accepted)
    .map(async ({ topic, partition, to }) => (await log.end(topic, partition)) > to);
  return (await Promise.all(behind)).includes(true);
}

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
  return Math.ceil(counted.reduce((sum, count) => sum + count, 0));
}
