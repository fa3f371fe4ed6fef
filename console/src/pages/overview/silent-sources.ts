import type { FunnelGroup } from './overview-calls.ts';

const HOUR_MS = 3_600_000;
/** A source with fewer hours of events has no pattern to compare with. */
const MIN_ACTIVE_HOURS = 3;
/** Full hours without an event after which a source may be silent. */
const MIN_QUIET_HOURS = 2;

export interface SilentSource {
  readonly sourceId: string;
  /** Begin of the last hour with an event, ms since the epoch. */
  readonly lastHour: number;
  readonly quietHours: number;
}

/**
 * Sources that sent events and stopped: silent for two hours at least, and for longer than twice their longest pause before,
 * so that a source that sends at night is not reported by day.
 */
export function silentSourcesOf(groups: readonly FunnelGroup[], now: number): readonly SilentSource[] {
  return groups
    .flatMap(({ group: { source }, series = [] }) => {
      const hours = series
        .filter(({ counts }) => (counts.received ?? 0) > 0)
        .map(({ start }) => Date.parse(start));
      const lastHour = hours.at(-1);
      if (source === undefined || source.length !== 36 || lastHour === undefined) return [];
      const pauses = hours.slice(1).map((hour, index) => (hour - (hours[index] ?? hour)) / HOUR_MS - 1);
      const quietHours = Math.floor((now - lastHour) / HOUR_MS) - 1;
      const isSilent =
        hours.length >= MIN_ACTIVE_HOURS &&
        quietHours >= MIN_QUIET_HOURS &&
        quietHours > 2 * Math.max(0, ...pauses);
      return isSilent ? [{ sourceId: source, lastHour, quietHours }] : [];
    })
    .sort((left, right) => right.quietHours - left.quietHours);
}
