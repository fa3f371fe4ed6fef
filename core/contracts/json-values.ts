import type { Json, JsonObject } from '../event/event.ts';
import type { WorkMeter } from './work-meter.ts';

type Scalar = null | boolean | number | string;

function isScalar(value: Json): value is Scalar {
  return typeof value !== 'object' || value === null;
}

function isList(value: readonly Json[] | JsonObject): value is readonly Json[] {
  return Array.isArray(value);
}

/** Equality of JSON values, blind to the order of members and to whatever an event names its fields. */
export function sameJson(left: Json, right: Json): boolean {
  if (isScalar(left) || isScalar(right)) return left === right;
  if (isList(left)) return isList(right) && sameItems(left, right);
  return !isList(right) && sameMembers(left, right);
}

function sameItems(left: readonly Json[], right: readonly Json[]): boolean {
  return left.length === right.length && left.every((item, index) => sameJson(item, right[index] ?? null));
}

function sameMembers(left: JsonObject, right: JsonObject): boolean {
  const names = Object.keys(left);
  if (names.length !== Object.keys(right).length) return false;
  return names.every(
    (name) => Object.hasOwn(right, name) && sameJson(left[name] ?? null, right[name] ?? null),
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
    for (const item of items) {
      const key = isScalar(item) ? (typeof item === 'string' ? `"${item}` : item) : metered(item, meter);
      if (seen.has(key)) return false;
      seen.add(key);
    }
    return true;
  };
}

/** Characters written out that count as one unit of work. */
const CHARACTERS_PER_UNIT = 64;

function metered(value: Json, meter: WorkMeter): string {
  const text = canonicalJson(value);
  meter.spend(Math.trunc(text.length / CHARACTERS_PER_UNIT));
  return text;
}

/** A text that equal values share and different ones do not. */
export function canonicalJson(value: Json): string {
  if (isScalar(value)) return typeof value === 'number' ? String(value) : JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  const members = Object.entries(value).map(
    ([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`,
  );
  return `{${members.sort().join(',')}}`;
}

/** Whole multiples, allowing for what doubles lose: 19.99 is a multiple of 0.01. */
export function isMultiple(value: number, step: number): boolean {
  const quotient = value / step;
  if (!Number.isFinite(quotient)) return Number.isFinite(value) && value % step === 0;
  return Math.abs(quotient - Math.round(quotient)) <= Math.abs(quotient) * 2 ** -51;
}
