import type { Json, JsonObject } from '../event/event.ts';
import type { WorkMeter } from './work-meter.ts';

type Scalar = null | boolean | number | string;

function isScalar(value: Json): value is Scalar {
  return typeof value !== 'object' || value === null;
}

export function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

/**
 * A test for being equal to a JSON value, blind to the order of members and to whatever an event names its fields.
 * What is compared is spent from the meter.
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
 * A test for being one of the values; its time does not grow with their number. Only a list or an object among as many
 * members as the value has makes the value be written out, which spends from the meter.
 */
export function oneOfValues(values: readonly Json[], meter: WorkMeter): (value: Json) => boolean {
  const scalars = new Set<Json>(values.filter(isScalar));
  const others = values.filter((value): value is readonly Json[] | JsonObject => !isScalar(value));
  if (others.length === 0) return (value) => scalars.has(value);
  const sizes = new Set(others.map(sizeOf));
  const texts = new Set(others.map((other) => canonicalJson(other)));
  return (value) => {
    if (isScalar(value)) return scalars.has(value);
    return sizes.has(sizeOf(value)) && texts.has(metered(value, meter));
  };
}

function sizeOf(value: readonly Json[] | JsonObject): string {
  return isList(value) ? `[${value.length}` : `{${Object.keys(value).length}`;
}

/** A test for no two items being equal. Linear in the size of the items, which is spent from the meter. */
export function distinctTest(meter: WorkMeter): (items: readonly Json[]) => boolean {
  return (items) => {
    const seen = new Set<string | Scalar>();
    meter.spend(items.length * WORK_PER_VALUE);
    for (const item of items) {
      const key = isScalar(item) ? scalarKey(item, meter) : metered(item, meter);
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
 * Tests for the length of a text in characters as people count them, not in units of UTF-16. Texts whose units tell
 * already are not counted; what is counted is spent from the meter.
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

/** A value that is compared, or kept for comparing. */
const WORK_PER_VALUE = 5;
/** Characters of a text that is written out, and characters that are counted, are a unit by eight and by four. */
const TEXT_SHIFT = 3;
const COUNT_SHIFT = 2;

function metered(value: Json, meter: WorkMeter): string {
  return written(value, (work) => meter.spend(work));
}

/** A text that equal values share and different ones do not. */
export function canonicalJson(value: Json): string {
  return written(value, () => {});
}

/** A list, an object and a member of one, as they are written out. */
const WORK_PER_LIST = 8;
const WORK_PER_OBJECT = 60;
const WORK_PER_MEMBER = 30;

function written(value: Json, spend: (work: number) => void): string {
  if (typeof value === 'number') return String(value);
  if (isScalar(value)) {
    if (typeof value === 'string') spend(value.length >> TEXT_SHIFT);
    return JSON.stringify(value);
  }
  if (isList(value)) {
    spend(WORK_PER_LIST + value.length);
    return `[${value.map((item) => written(item, spend)).join(',')}]`;
  }
  const entries = Object.entries(value);
  spend(WORK_PER_OBJECT + WORK_PER_MEMBER * entries.length);
  const members = entries.map(([name, member]) => `${JSON.stringify(name)}:${written(member, spend)}`);
  return `{${members.sort().join(',')}}`;
}

/** Whole multiples, allowing for what doubles lose: 19.99 is a multiple of 0.01. */
export function isMultiple(value: number, step: number): boolean {
  const quotient = value / step;
  if (!Number.isFinite(quotient)) return Number.isFinite(value) && value % step === 0;
  return Math.abs(quotient - Math.round(quotient)) <= Math.abs(quotient) * 2 ** -51;
}
