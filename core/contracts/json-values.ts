import type { Json, JsonObject } from '../event/event.ts';

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

/** A test for being one of the values; for scalars its time does not grow with their number. */
export function oneOfValues(values: readonly Json[]): (value: Json) => boolean {
  const scalars = new Set<Json>(values.filter(isScalar));
  const others = values.filter((value) => !isScalar(value));
  if (others.length === 0) return (value) => scalars.has(value);
  return (value) => (isScalar(value) ? scalars.has(value) : others.some((other) => sameJson(value, other)));
}

/** True when no two items are equal. Linear in the size of the items. */
export function allDistinct(items: readonly Json[]): boolean {
  const seen = new Set<string | Scalar>();
  for (const item of items) {
    const key = isScalar(item) ? (typeof item === 'string' ? `"${item}` : item) : canonicalJson(item);
    if (seen.has(key)) return false;
    seen.add(key);
  }
  return true;
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
