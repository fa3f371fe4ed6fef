import { below, type Json, type JsonObject, type NewAttribute } from '@tributary/core';
import type { ErrorDetail } from '../../http/errors.ts';

/** The member of a category that is its time and no attribute. */
const TIME = '_ts';
const DIGITS = /^\d{1,16}$/;
/** The last moment that a date can tell. */
const LATEST = 8.64e15;

/**
 * The attributes of a body's `profile`: a category that is an object has one for each of its members, written at the
 * category's `_ts` where there is one; any other is a value by itself. A category without members says that there is
 * one.
 */
export function readAttributes(
  profile: JsonObject,
  path: string,
  faults: ErrorDetail[],
): readonly NewAttribute[] {
  return Object.entries(profile).flatMap(([category, value]) => {
    const place = below(path, category);
    if (category === TIME) {
      faults.push({ path: place, message: 'is the time of a category and no category' });
      return [];
    }
    return isObject(value) ? readCategory(category, value, place, faults) : [{ path: [category], value }];
  });
}

function readCategory(
  category: string,
  { [TIME]: time, ...attributes }: JsonObject,
  path: string,
  faults: ErrorDetail[],
): readonly NewAttribute[] {
  const ts = time === undefined ? undefined : readTime(time, below(path, TIME), faults);
  const when = ts === undefined ? {} : { ts };
  const members = Object.entries(attributes);
  if (members.length === 0) return [{ path: [category], value: {}, ...when }];
  return members.map(([name, value]) => ({ path: [category, name], value, ...when }));
}

/** Epoch ms, as a number or, as records show it, as text. */
function readTime(value: Json, path: string, faults: ErrorDetail[]): number | undefined {
  const ts = typeof value === 'string' && DIGITS.test(value) ? Number(value) : value;
  if (typeof ts === 'number' && Number.isInteger(ts) && ts >= 0 && ts <= LATEST) return ts;
  faults.push({ path, message: 'must be a time in epoch milliseconds, as a string or an integer' });
  return undefined;
}

function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}
