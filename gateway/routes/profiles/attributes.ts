import {
  attributeOf,
  below,
  isObject,
  isTimedValue,
  type Json,
  type JsonObject,
  type NewAttribute,
  type NullHandling,
} from '@tributary/core';
import type { ErrorDetail } from '../../errors/api-error.ts';
import type { SentValue } from './schemas.ts';

/** The member of a map, a category or a value that holds its time. */
const TIME = '_ts';
const DIGITS = /^\d{1,20}$/;
/** How far a time may be in the future, ms: a day of clock skew, and a minute that the store may add. */
const MAX_AHEAD_MS = 24 * 3_600_000 + 60_000;
/** In 1973 as milliseconds, in 5138 as seconds. */
const LEAST_IN_MS = 1e11;
/** The same day of 1973 in seconds. Smaller numbers are counters, which are accepted. */
const LEAST_IN_SECONDS = 1e8;

/**
 * The attributes of a body's `profile`. A category that is an object has an attribute for each member, and is written as an
 * empty object without members. Any other category is a value. The time of an attribute is its own, where it is an object
 * with `value` and `_ts` alone, else that of its category, else that of the whole.
 * `nulls`: whether `null` as a category or attribute removes it; within a value it is kept.
 */
export function readAttributes(
  { [TIME]: time, ...categories }: JsonObject,
  path: string,
  faults: ErrorDetail[],
  now: number,
  nulls: NullHandling = 'unset',
): readonly NewAttribute[] {
  const read: Reading = { path, faults, now };
  const whole = timeIn(time, read, undefined);
  return Object.entries(categories).flatMap(([category, value]): readonly NewAttribute[] => {
    if (!isObject(value)) return [{ ...attributeOf([category], value, nulls), ...whole }];
    const { [TIME]: ownTime, ...attributes } = value;
    const inCategory = { ...read, path: below(path, category) };
    const own = timeIn(ownTime, inCategory, whole);
    const members = Object.entries(attributes);
    if (members.length === 0) return [{ path: [category], value: {}, ...own }];
    return members.map(([name, member]) => {
      if (!isTimedValue(member)) return { ...attributeOf([category, name], member, nulls), ...own };
      const at = timeIn(member[TIME], { ...inCategory, path: below(inCategory.path, name) }, own);
      return { ...attributeOf([category, name], member.value, nulls), ...at };
    });
  });
}

/** The values of `mkt_preferences` or `consent`. The time of a value is its own, else that of the map. */
export function readNamed(
  { [TIME]: time, ...values }: Readonly<Record<string, SentValue | number>>,
  path: string,
  faults: ErrorDetail[],
  now: number,
): readonly SentNamed[] {
  const whole = timeIn(time as Json | undefined, { path, faults, now }, undefined);
  return Object.entries(values).flatMap(([name, sent]): readonly SentNamed[] => {
    if (typeof sent === 'number') return [];
    if (typeof sent === 'string' || sent === null) return [{ name, value: sent, ...whole }];
    const own = timeIn(sent._ts, { path: below(path, name), faults, now }, whole);
    return [{ name, value: sent.value, ...own }];
  });
}

/** A preference or consent of a body; `null` removes it. */
export interface SentNamed {
  readonly name: string;
  readonly value: string | null;
  readonly ts?: number;
}

interface Reading {
  readonly path: string;
  readonly faults: ErrorDetail[];
  readonly now: number;
}

interface Timed {
  readonly ts?: number;
}

/** The time that a `_ts` says; without one, that of what is around it. */
function timeIn(time: Json | undefined, { path, faults, now }: Reading, around: Timed | undefined): Timed {
  const ts = time === undefined ? undefined : readTime(time, below(path, TIME), faults, now);
  return ts === undefined ? (around ?? {}) : { ts };
}

/** Epoch ms, as a number or as text, the form of records. A future time is a fault: it would win over all writes until then. */
function readTime(value: Json, path: string, faults: ErrorDetail[], now: number): number | undefined {
  const ts = typeof value === 'string' && DIGITS.test(value) ? Number(value) : value;
  const message =
    typeof ts === 'number' && Number.isInteger(ts) && ts >= 0
      ? faultOfTime(ts, now)
      : 'must be a time in epoch milliseconds, as a string or an integer';
  if (message === undefined) return Number(ts);
  faults.push({ path, message });
  return undefined;
}

function faultOfTime(ts: number, now: number): string | undefined {
  const latest = now + MAX_AHEAD_MS;
  const isTime = (ms: number) => ms >= LEAST_IN_MS && ms <= latest;
  const meant = (unit: string, ms: number) => `is in ${unit}, in milliseconds it is ${ms}`;
  if (ts >= LEAST_IN_SECONDS && ts < LEAST_IN_MS) return meant('seconds', ts * 1_000);
  if (ts <= latest) return undefined;
  if (isTime(ts / 1_000)) return meant('microseconds', Math.trunc(ts / 1_000));
  if (isTime(ts / 1_000_000)) return meant('nanoseconds', Math.trunc(ts / 1_000_000));
  return 'is more than a day in the future';
}
