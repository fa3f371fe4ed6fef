import type { Schemas } from '../../api/client.ts';
import { eventTitle } from '../../shared/event-fields.ts';
import type { Range } from './search.ts';

type EventVolume = Schemas['EventVolume'];

/** Hours of one bar, in the viewer's zone. */
const BAR_HOURS: Readonly<Record<Range, number>> = { '24h': 1, '7d': 6, '30d': 24 };
/** Kinds of events with a colour of their own; the others share one. */
export const MAX_SERIES = 6;
const HOUR_MS = 3_600_000;

export interface VolumeKind {
  readonly type: EventVolume['event_type'];
  readonly name: string;
  readonly label: string;
  readonly count: number;
}

export interface VolumeSeries {
  /** Names the series in the bars. Not the name of an event: charts read a name with dots as a path. */
  readonly key: string;
  readonly label: string;
}

export interface VolumeBar {
  /** ms since the epoch. */
  readonly start: number;
  readonly counts: Readonly<Record<string, number>>;
}

export interface Volume {
  readonly total: number;
  /** By type and name, the largest first. */
  readonly kinds: readonly VolumeKind[];
  readonly series: readonly VolumeSeries[];
  readonly bars: readonly VolumeBar[];
}

interface Options {
  readonly range: Range;
  readonly by: 'type' | 'name';
  readonly now: number;
  /** Hours of the range. */
  readonly hours: number;
}

/** Hourly counts as bars of a chart, with the largest kinds of events apart, and their totals. */
export function volumeOf(hourly: readonly EventVolume[], { range, by, now, hours }: Options): Volume {
  const totals = new Map<string, { type: EventVolume['event_type']; name: string; count: number }>();
  const bySeries = new Map<string, { label: string; count: number }>();
  for (const { event_type, event_name, event_count } of hourly) {
    const kind = `${event_type} ${event_name}`;
    const known = totals.get(kind) ?? { type: event_type, name: event_name, count: 0 };
    totals.set(kind, { ...known, count: known.count + event_count });
    const series = by === 'type' ? event_type : kind;
    const label = by === 'type' ? event_type : labelOf(event_type, event_name);
    bySeries.set(series, { label, count: (bySeries.get(series)?.count ?? 0) + event_count });
  }
  const ordered = [...bySeries].sort(([, left], [, right]) => right.count - left.count);
  const own = ordered.slice(0, ordered.length > MAX_SERIES ? MAX_SERIES - 1 : MAX_SERIES);
  const keyOf = new Map(own.map(([series], index) => [series, `kind${index}`]));
  const bars = emptyBars(range, now, hours);
  for (const { event_type, event_name, event_count, hour_bucket } of hourly) {
    const series = by === 'type' ? event_type : `${event_type} ${event_name}`;
    const key = keyOf.get(series) ?? 'others';
    const counts = bars.get(barStart(Date.parse(hour_bucket), BAR_HOURS[range]));
    if (counts !== undefined) counts[key] = (counts[key] ?? 0) + event_count;
  }
  return {
    total: hourly.reduce((sum, { event_count }) => sum + event_count, 0),
    kinds: [...totals.values()]
      .sort((left, right) => right.count - left.count)
      .map((kind) => ({ ...kind, label: labelOf(kind.type, kind.name) })),
    series: [
      ...own.map(([series, { label }]) => ({ key: keyOf.get(series) ?? '', label })),
      ...(ordered.length > own.length ? [{ key: 'others', label: 'All others' }] : []),
    ],
    bars: [...bars].map(([start, counts]) => ({ start, counts })),
  };
}

function labelOf(type: string, name: string): string {
  return (type === 'page' || type === 'screen') && name !== ''
    ? `${type} ${name}`
    : eventTitle({ type, name });
}

function emptyBars(range: Range, now: number, hours: number): Map<number, Record<string, number>> {
  const bars = new Map<number, Record<string, number>>();
  // By the hour, as days of a change of the clock have 23 or 25 of them.
  for (let at = now - (hours - 1) * HOUR_MS; at <= now; at += HOUR_MS)
    bars.set(barStart(at, BAR_HOURS[range]), {});
  return bars;
}

/** Begin of the bar that a time falls into, in the viewer's zone. */
function barStart(time: number, barHours: number): number {
  const date = new Date(time);
  date.setHours(Math.floor(date.getHours() / barHours) * barHours, 0, 0, 0);
  return date.getTime();
}
