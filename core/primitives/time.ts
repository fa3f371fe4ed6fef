/** The canonical form: RFC 3339 in UTC with milliseconds, or finer as they were written. */
const CANONICAL =
  /^(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3,9}Z$/;

/** ISO 8601: a date, or a date and time with or without seconds, fraction and zone. */
const ISO_8601 =
  /^(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,30}))?)?([Zz]|([+-])(\d{2})(?::?(\d{2}))?)?)?$/;

/** Finer than any reader of times knows. */
const MAX_FRACTION = 9;
const MINUTE_MS = 60_000;
/** No calendar of a filter or a database has a year 0, and five digits are no RFC 3339. */
const EARLIEST = Date.parse('0001-01-01T00:00:00.000Z');
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * An ISO 8601 time in the canonical form; the same text where it has that form. A date is its start, and a time without
 * a zone is UTC. A leap second is the second behind it. Undefined for what is no such time, or lies outside the years 1
 * to 9999.
 */
export function canonicalTime(text: string): string | undefined {
  if (CANONICAL.test(text) && isCalendarDay(text)) return text;
  const parts = ISO_8601.exec(text);
  if (parts === null || !isCalendarDay(text)) return undefined;
  const [, day = '', hour = '00', minute = '00', second = '00', fraction = ''] = parts;
  const isEndOfDay = hour === '24' && Number(minute + second + fraction) === 0;
  if ((Number(hour) > 23 && !isEndOfDay) || Number(minute) > 59 || Number(second) > 60) return undefined;
  const offset = offsetOf(parts);
  if (offset === undefined) return undefined;
  const date = Date.parse(`${day}T00:00:00.000Z`);
  const at = date + (Number(hour) * 60 + Number(minute)) * MINUTE_MS + Number(second) * 1_000 - offset;
  if (Number.isNaN(at) || at < EARLIEST || at > LATEST) return undefined;
  const fine = fraction.slice(0, MAX_FRACTION).padEnd(3, '0');
  return `${new Date(at).toISOString().slice(0, 19)}.${fine}Z`;
}

/** Of the zone, in ms; undefined for one that is none. */
function offsetOf([, , , , , , , sign = '+', hours = '00', minutes = '00']: readonly string[]):
  | number
  | undefined {
  if (Number(hours) > 23 || Number(minutes) > 59) return undefined;
  const offset = (Number(hours) * 60 + Number(minutes)) * MINUTE_MS;
  return sign === '-' ? -offset : offset;
}

/**
 * Whether the day a text starts with (`YYYY-MM-DD`) is in the calendar. `Date.parse` refuses day 32 but takes
 * February 31 for a day in March.
 */
export function isCalendarDay(text: string): boolean {
  const day = Number(text.slice(8, 10));
  return day <= 28 || day <= daysIn(Number(text.slice(0, 4)), Number(text.slice(5, 7)));
}

function daysIn(year: number, month: number): number {
  if (month === 2) return isLeap(year) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

function isLeap(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
}

/** Epoch milliseconds. Handed in, so that core stays free of clocks and tests can scale time. */
export type Clock = () => number;

let lastMs = Number.NaN;
let lastText = '';

/** ISO 8601 UTC with milliseconds. Remembers the last one: events of one millisecond share it. */
export function iso(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}

export interface Backoff {
  /** The first wait, ms; each further one is twice as long. */
  readonly firstMs: number;
  /** The longest wait, ms. */
  readonly capMs: number;
}

/**
 * How long to wait before repetition `n` (0, 1, ...), ms. For every retry of the product that is no delivery: what else
 * differs (when to stop, what to log, what ends the wait early) stands in the loop of the caller.
 */
export function backoffMs(n: number, { firstMs, capMs }: Backoff): number {
  return Math.min(capMs, firstMs * 2 ** Math.min(n, 30));
}

/** How long one piece of work holds the thread before it gives it back, ms: others get their turn in between. */
const HELD_MS = 5;

/** The thread while one piece of work holds it: from when this is made, and anew after each rest. */
export class EventLoopYielder {
  readonly #elapsed: Clock;
  readonly #heldMs: number;
  #since: number;

  /** `elapsed`: ms that never go back. */
  constructor(elapsed: Clock, heldMs = HELD_MS) {
    this.#elapsed = elapsed;
    this.#heldMs = heldMs;
    this.#since = elapsed();
  }

  get isYieldDue(): boolean {
    return this.#elapsed() - this.#since > this.#heldMs;
  }

  async yield(): Promise<void> {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    this.#since = this.#elapsed();
  }
}
