/** The canonical form: RFC 3339 in UTC with milliseconds or the finer written fraction. */
const CANONICAL =
  /^(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3,9}Z$/;

/** ISO 8601: a date, or a date and time with or without seconds, fraction and zone. */
const ISO_8601 =
  /^(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,30}))?)?([Zz]|([+-])(\d{2})(?::?(\d{2}))?)?)?$/;

const ZERO = '0'.charCodeAt(0);
/** Nanoseconds. */
const MAX_FRACTION = 9;
const MINUTE_MS = 60_000;
/** Filters and databases have no year 0, and RFC 3339 has no years of five digits. */
const EARLIEST = Date.parse('0001-01-01T00:00:00.000Z');
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * Converts an ISO 8601 time to the canonical form; canonical texts are returned unchanged. A date is its start, a
 * time without a zone is in UTC, and a leap second becomes the second after it. Undefined for any other text, and
 * outside the years 1 to 9999.
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

/** The offset of the zone, ms; undefined for an invalid zone. */
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
  const day = twoDigits(text, 8);
  return day <= 28 || day <= daysIn(twoDigits(text, 0) * 100 + twoDigits(text, 2), twoDigits(text, 5));
}

/** Without a text for each number: the times of an event are looked at some ten times. */
function twoDigits(text: string, at: number): number {
  return (text.charCodeAt(at) - ZERO) * 10 + text.charCodeAt(at + 1) - ZERO;
}

function daysIn(year: number, month: number): number {
  if (month === 2) return isLeap(year) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

function isLeap(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
}

/** Epoch milliseconds. Injected, so that core has no clock and tests can control time. */
export type Clock = () => number;

let lastMs = Number.NaN;
let lastText = '';

/** ISO 8601 UTC with milliseconds. Caches the last text, because many events share a millisecond. */
export function iso(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}

export interface Backoff {
  /** The first delay, ms; each further one is twice as long. */
  readonly firstMs: number;
  /** The longest delay, ms. */
  readonly capMs: number;
}

/**
 * Delay before repetition `n` (0, 1, ...), ms. For all retries of the product except deliveries; when to stop, what
 * to log and what ends the wait early is up to the caller's loop.
 */
export function backoffMs(n: number, { firstMs, capMs }: Backoff): number {
  return Math.min(capMs, firstMs * 2 ** Math.min(n, 30));
}

/** How long one piece of work may block the event loop before it yields, ms. */
const SLICE_MS = 5;

/** Measures how long a piece of work has blocked the event loop since its start or its last yield. */
export class EventLoopYielder {
  readonly #elapsed: Clock;
  readonly #sliceMs: number;
  #since: number;

  /** `elapsed`: a monotonic clock, ms. */
  constructor(elapsed: Clock, sliceMs = SLICE_MS) {
    this.#elapsed = elapsed;
    this.#sliceMs = sliceMs;
    this.#since = elapsed();
  }

  get isYieldDue(): boolean {
    return this.#elapsed() - this.#since > this.#sliceMs;
  }

  async yield(): Promise<void> {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    this.#since = this.#elapsed();
  }
}

/** Runs `work`, which handles its errors, at once and then regularly, one run at a time. `close` waits for one under way. */
export function repeat(work: () => Promise<void>, everyMs: number): { close(): Promise<void> } {
  let running: Promise<void> | undefined;
  const run = () => {
    running ??= work().finally(() => {
      running = undefined;
    });
  };
  run();
  const timer = setInterval(run, everyMs).unref();
  return {
    async close() {
      clearInterval(timer);
      await running;
    },
  };
}
