import {
  attributeOf,
  below,
  type Json,
  type JsonObject,
  type NewAttribute,
  type NullHandling,
} from '@tributary/core';
import type { ErrorDetail } from '../../errors/api-error.ts';

/** The member of a category that holds its time. */
const TIME = '_ts';
const DIGITS = /^\d{1,20}$/;
/** How far a time may be in the future, ms: a day of clock skew, and a minute that the store may add. */
const MAX_AHEAD_MS = 24 * 3_600_000 + 60_000;
/** In 1973 as milliseconds, in 5138 as seconds. */
const LEAST_IN_MS = 1e11;
/** The same day of 1973 in seconds. Smaller numbers are counters, which are accepted. */
const LEAST_IN_SECONDS = 1e8;

/**
 * The attributes of a body's `profile`. A category that is an object has an attribute for each member, written at the
 * category's `_ts` if it has one, and is written as an empty object without members. Any other category is a value.
 * `nulls`: whether `null` as a category or attribute removes it; within a value it is kept.
 */
export function readAttributes(
  profile: JsonObject,
  path: string,
  faults: ErrorDetail[],
  now: number,
  nulls: NullHandling = 'unset',
): readonly NewAttribute[] {
  return Object.entries(profile).flatMap(([category, value]) => {
    const fieldPath = below(path, category);
    if (category === TIME) {
      faults.push({ path: fieldPath, message: 'is the time of a category, not a category' });
      return [];
    }
    return isObject(value)
      ? readCategory(category, value, fieldPath, faults, { now, nulls })
      : [attributeOf([category], value, nulls)];
  });
}

function readCategory(
  category: string,
  { [TIME]: time, ...attributes }: JsonObject,
  path: string,
  faults: ErrorDetail[],
  { now, nulls }: { readonly now: number; readonly nulls: NullHandling },
): readonly NewAttribute[] {
  const ts = time === undefined ? undefined : readTime(time, below(path, TIME), faults, now);
  const when = ts === undefined ? {} : { ts };
  const members = Object.entries(attributes);
  if (members.length === 0) return [{ path: [category], value: {}, ...when }];
  return members.map(([name, value]) => ({ ...attributeOf([category, name], value, nulls), ...when }));
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

function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}
