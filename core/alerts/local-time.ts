const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const WEEK_MS = 7 * 24 * HOUR_MS;

export const WEEKDAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;
export type Weekday = (typeof WEEKDAYS)[number];

/** A time of the week, by the clocks of a time zone. Where `until` is not later than `from`, it ends on the next day. */
export interface QuietPeriod {
  /** The days on which it begins. */
  readonly days: readonly Weekday[];
  /** `HH:MM`, inclusive. */
  readonly from: string;
  /** `HH:MM`, exclusive. */
  readonly until: string;
}

export type QuietHours = readonly QuietPeriod[];

const FORMATS = new Map<string, Intl.DateTimeFormat>();

/** Formats are costly to make. There are as many as time zones. */
function formatOf(timeZone: string): Intl.DateTimeFormat {
  let format = FORMATS.get(timeZone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    FORMATS.set(timeZone, format);
  }
  return format;
}

const NAME = /^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/;

/** Whether a text names a time zone of the IANA database. */
export function isTimeZone(text: string): boolean {
  if (!NAME.test(text)) return false;
  try {
    formatOf(text);
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

/** Clocks change at whole half hours of UTC, so the offset of each is worked out once. */
const HALF_HOUR_MS = HOUR_MS / 2;
const MAX_OFFSETS = 50_000;
const OFFSETS = new Map<string, number>();

/** By how much the clocks of a time zone are ahead of UTC, ms. */
function offsetAt(ms: number, timeZone: string): number {
  if (timeZone === 'UTC') return 0;
  const start = Math.floor(ms / HALF_HOUR_MS) * HALF_HOUR_MS;
  const key = `${start} ${timeZone}`;
  const known = OFFSETS.get(key);
  if (known !== undefined) return known;
  const parts: Record<string, number> = {};
  for (const { type, value } of formatOf(timeZone).formatToParts(start)) parts[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  const offset = Date.UTC(year, month - 1, day, hour, minute, second) - start;
  if (OFFSETS.size >= MAX_OFFSETS) OFFSETS.clear();
  OFFSETS.set(key, offset);
  return offset;
}

/**
 * The start of the hour (of UTC, as hours are counted) at which the clocks showed the same time `weeks` earlier. A clock
 * change in between moves it by that hour; the hour that a change leaves out is replaced by a neighbour.
 */
export function sameHourBefore(hour: number, weeks: number, timeZone: string): number {
  const straight = hour - weeks * WEEK_MS;
  const now = offsetAt(hour, timeZone);
  const shifted = straight + now - offsetAt(straight, timeZone);
  const settled = straight + now - offsetAt(shifted, timeZone);
  return Math.round(settled / HOUR_MS) * HOUR_MS;
}

/** Whether a moment lies in a quiet period. */
export function isQuiet(quiet: QuietHours | null, timeZone: string, now: number): boolean {
  if (quiet === null || quiet.length === 0) return false;
  const local = new Date(now + offsetAt(now, timeZone));
  const minute = local.getUTCHours() * 60 + local.getUTCMinutes();
  const today = weekdayOf(local, 0);
  const yesterday = weekdayOf(local, -1);
  return quiet.some(({ days, from, until }) => {
    const [begin, end] = [minutesOf(from), minutesOf(until)];
    if (begin < end) return days.includes(today) && begin <= minute && minute < end;
    return (days.includes(today) && begin <= minute) || (days.includes(yesterday) && minute < end);
  });
}

function weekdayOf(local: Date, days: number): Weekday {
  const index = (local.getUTCDay() + 6 + days + 7) % 7;
  return WEEKDAYS[index] ?? 'mon';
}

function minutesOf(text: string): number {
  return Number(text.slice(0, 2)) * 60 + Number(text.slice(3, 5));
}
