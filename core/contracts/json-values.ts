import type { Json, JsonObject } from '../event/event.ts';
import type { WorkMeter } from './work.ts';

/** The JSON pointer of a member of the value that `pointer` points at. */
export function below(pointer: string, member: string | number): string {
  return `${pointer}/${String(member).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/** Whether arrays and objects are nested more than `limit` deep. Descends no deeper than that. */
export function deeperThan(value: Json, limit: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (limit === 0) return true;
  for (const member of Object.values(value)) {
    if (deeperThan(member, limit - 1)) return true;
  }
  return false;
}

type Scalar = null | boolean | number | string;

function isScalar(value: Json): value is Scalar {
  return typeof value !== 'object' || value === null;
}

export function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

/**
 * A test for equality with a JSON value. The order of members does not matter, nor do fields named like methods. Each
 * comparison is charged to the meter.
 */
export function sameAs(expected: Json, meter: WorkMeter): (value: Json) => boolean {
  return (value) => isSame(value, expected, meter);
}

function isSame(left: Json, right: Json, meter: WorkMeter): boolean {
  meter.spend(WORK_PER_VALUE);
  if (isScalar(left) || isScalar(right)) return left === right;
  if (isList(left)) return isList(right) && sameItems(left, right, meter);
  return !isList(right) && sameMembers(left, right, meter);
}

function sameItems(left: readonly Json[], right: readonly Json[], meter: WorkMeter): boolean {
  return (
    left.length === right.length && left.every((item, index) => isSame(item, right[index] ?? null, meter))
  );
}

function sameMembers(left: JsonObject, right: JsonObject, meter: WorkMeter): boolean {
  const names = Object.keys(left);
  meter.spend(names.length);
  if (names.length !== Object.keys(right).length) return false;
  return names.every(
    (name) => Object.hasOwn(right, name) && isSame(left[name] ?? null, right[name] ?? null, meter),
  );
}

/**
 * A test for membership in a list of values, in time that does not grow with the list. A list or an object is serialized,
 * which is charged to the meter, only where one of the values has as many members.
 */
export function oneOfValues(values: readonly Json[], meter: WorkMeter): (value: Json) => boolean {
  const scalars = new Set<Json>(values.filter(isScalar));
  const others = values.filter((value): value is readonly Json[] | JsonObject => !isScalar(value));
  if (others.length === 0) return (value) => scalars.has(value);
  const sizes = new Set(others.map(sizeOf));
  const texts = new Set(others.map((other) => canonicalJson(other)));
  return (value) => {
    if (isScalar(value)) return scalars.has(value);
    meter.spend(WORK_PER_VALUE + 2 * WORK_PER_VALUE * (isList(value) ? 0 : Object.keys(value).length));
    return sizes.has(sizeOf(value)) && texts.has(serialize(value, (work) => meter.spend(work)));
  };
}

function sizeOf(value: readonly Json[] | JsonObject): string {
  return isList(value) ? `[${value.length}` : `{${Object.keys(value).length}`;
}

/** A test that no two items are equal. Linear in the size of the items, which is charged to the meter. */
export function distinctTest(meter: WorkMeter): (items: readonly Json[]) => boolean {
  return (items) => {
    const seen = new Set<string | Scalar>();
    meter.spend(items.length * WORK_PER_VALUE);
    for (const item of items) {
      const key = isScalar(item) ? scalarKey(item, meter) : serialize(item, (work) => meter.spend(work));
      if (seen.has(key)) return false;
      seen.add(key);
    }
    return true;
  };
}

function scalarKey(item: Scalar, meter: WorkMeter): Scalar {
  if (typeof item !== 'string') return item;
  meter.spend(item.length >> TEXT_SHIFT);
  return `"${item}`;
}

/**
 * Tests for the length of a text in Unicode code points. Characters are counted, and charged to the meter, only where the
 * number of UTF-16 units does not decide.
 */
export function lengthTests(meter: WorkMeter): {
  textAtMost(limit: number): (text: string) => boolean;
  textAtLeast(limit: number): (text: string) => boolean;
} {
  const lengthOf = (text: string) => {
    meter.spend(text.length >> COUNT_SHIFT);
    return charactersIn(text);
  };
  return {
    textAtMost: (limit) => (text) =>
      text.length <= limit || (text.length <= 2 * limit && lengthOf(text) <= limit),
    textAtLeast: (limit) => (text) =>
      text.length >= limit && (text.length >= 2 * limit || lengthOf(text) >= limit),
  };
}

function charactersIn(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const isPair = isSurrogate(text, at, 0xd800) && isSurrogate(text, at + 1, 0xdc00);
    if (isPair) at++;
    count++;
  }
  return count;
}

function isSurrogate(text: string, at: number, first: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === first;
}

/** Units for a value that is compared, or kept for comparing. */
const WORK_PER_VALUE = 5;
/** Eight characters that are serialized are a unit, and four that are counted. */
const TEXT_SHIFT = 3;
const COUNT_SHIFT = 2;

/** The same text for equal values, different texts for different ones. */
export function canonicalJson(value: Json): string {
  return serialize(value, () => {});
}

/** Units for a list, an object and a member of one that are serialized. */
const WORK_PER_LIST = 8;
const WORK_PER_OBJECT = 60;
const WORK_PER_MEMBER = 30;

function serialize(value: Json, spend: (work: number) => void): string {
  if (typeof value === 'number') return String(value);
  if (isScalar(value)) {
    if (typeof value === 'string') spend(value.length >> TEXT_SHIFT);
    return JSON.stringify(value);
  }
  if (isList(value)) {
    spend(WORK_PER_LIST + value.length);
    return `[${value.map((item) => serialize(item, spend)).join(',')}]`;
  }
  const entries = Object.entries(value);
  spend(WORK_PER_OBJECT + WORK_PER_MEMBER * entries.length);
  const members = entries.map(([name, member]) => `${JSON.stringify(name)}:${serialize(member, spend)}`);
  return `{${members.sort().join(',')}}`;
}

/** Whether a value is a whole multiple, within the precision of doubles: 19.99 is a multiple of 0.01. */
export function isMultiple(value: number, step: number): boolean {
  const quotient = value / step;
  if (!Number.isFinite(quotient)) return Number.isFinite(value) && value % step === 0;
  return Math.abs(quotient - Math.round(quotient)) <= Math.abs(quotient) * 2 ** -51;
}
