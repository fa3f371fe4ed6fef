import {
  type Counters,
  type FunnelDimension,
  type FunnelFilter,
  type FunnelInterval,
  type FunnelRow,
  measured,
  measureText,
} from '../ports/counters.ts';
import type { AlertRule, AlertWatch } from './alert.ts';
import { type AlertSeries, floorTo, HOUR_MS, needsHistory, rangesOf, type SeriesPoint } from './series.ts';

export type ReadFunnel = Counters['funnel'];

const DAY_MS = 24 * HOUR_MS;
/** Days that are searched for the first counts: as many as hours are kept at least. */
const HISTORY_DAYS = 31;

export interface SeriesQuery extends Pick<AlertRule, 'environment' | 'watch' | 'time_zone'> {
  readonly workspaceId: string;
  /** See `AlertSeries`. */
  readonly completeUntil: number;
  /** Where it is known already. */
  readonly countedSince?: number | undefined;
  /** Whether a destination gets deliveries: those that a paused one holds back are not late. */
  isActive(destinationId: string): boolean;
}

/** Reads the counts that an evaluation of an alert needs. Rejects as the store does. */
export async function readAlertSeries(read: ReadFunnel, query: SeriesQuery): Promise<AlertSeries> {
  const { watch, time_zone, completeUntil } = query;
  const countedSince = needsHistory(watch)
    ? (query.countedSince ?? (await firstDay(read, query)))
    : undefined;
  // By start: after a clock change two hours may be compared with the same one.
  const points = { minute: new Map<number, SeriesPoint>(), hour: new Map<number, SeriesPoint>() };
  for (const { interval, from, to } of rangesOf(watch, time_zone, completeUntil))
    for (const point of await readPoints(read, query, { interval, from, to }))
      points[interval].set(point.start, point);
  const sorted = (found: ReadonlyMap<number, SeriesPoint>) =>
    [...found.values()].sort((a, b) => a.start - b.start);
  return { completeUntil, minutes: sorted(points.minute), hours: sorted(points.hour), countedSince };
}

/** Reads the hours since `from`, for a dry run. */
export async function readPastSeries(
  read: ReadFunnel,
  query: SeriesQuery,
  from: number,
): Promise<Omit<AlertSeries, 'completeUntil'>> {
  const to = floorTo(query.completeUntil, HOUR_MS) + HOUR_MS;
  const hours = await readPoints(read, query, { interval: 'hour', from: floorTo(from, HOUR_MS), to });
  const countedSince = hours.find(({ received }) => received > 0)?.start;
  return { minutes: [], hours, countedSince, hoursOnly: true };
}

/** The start of the first kept day with events. */
async function firstDay(read: ReadFunnel, query: SeriesQuery): Promise<number | undefined> {
  const today = floorTo(query.completeUntil, DAY_MS);
  const from = today - HISTORY_DAYS * DAY_MS;
  const days = await readPoints(read, query, { interval: 'day', from, to: today + DAY_MS });
  return days.find(({ received }) => received > 0)?.start;
}

async function readPoints(
  read: ReadFunnel,
  { workspaceId, environment, watch, isActive }: SeriesQuery,
  range: { readonly interval: FunnelInterval; readonly from: number; readonly to: number },
): Promise<readonly SeriesPoint[]> {
  const groupBy: readonly FunnelDimension[] = isAboutDeliveries(watch) ? ['destination'] : [];
  const filter = { environment, ...filterOf(watch) };
  const rows = await read({ workspaceId, ...range, filter, groupBy });
  const points = new Map<number, SeriesPoint>();
  for (const row of rows) {
    const { destination } = row.group;
    if (destination !== undefined && !isActive(destination)) continue;
    points.set(row.start, added(points.get(row.start), row));
  }
  return [...points.values()];
}

export function isAboutDeliveries({ kind }: AlertWatch): boolean {
  return kind === 'delivery_rate' || kind === 'backlog';
}

function filterOf(watch: AlertWatch): FunnelFilter {
  const { source_id, event_type, event_name, destination_id } = { ...NO_FILTER, ...watch };
  return {
    ...(source_id === null ? {} : { source: source_id }),
    ...(event_type === null ? {} : { type: event_type }),
    ...(event_name === null ? {} : { name: event_name }),
    ...(destination_id === null ? {} : { destination: destination_id }),
  };
}

const NO_FILTER = { source_id: null, event_type: null, event_name: null, destination_id: null };

/** A dead delivery that is sent again; the deliveries that a rule makes of a redriven event are counted as created. */
const REDRIVEN = measureText('redriven', 'delivery');
/** Causes of dead deliveries. Events that fail in a rule are left out: they become dead without having been a delivery. */
const DEAD = (['rule', 'destination', 'expired'] as const).map((cause) => measureText('dead', cause));

function added(before: SeriesPoint | undefined, { start, counts }: FunnelRow): SeriesPoint {
  const of = (measure: Parameters<typeof measured>[1]) => measured(counts, measure);
  return {
    start,
    received: (before?.received ?? 0) + Math.max(0, of('received') - of('duplicate')),
    violations: (before?.violations ?? 0) + of('rejected') + of('warned'),
    deliveries: (before?.deliveries ?? 0) + of('created') + (counts[REDRIVEN] ?? 0) - of('unwanted'),
    delivered: (before?.delivered ?? 0) + of('delivered_first') + of('delivered_later'),
    dead: DEAD.reduce((sum, text) => sum + (counts[text] ?? 0), before?.dead ?? 0),
  };
}
