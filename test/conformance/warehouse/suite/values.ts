import { isObject, type Json, type JsonObject } from '@tributary/core';
import fc from 'fast-check';

/** Names that often meet in one column. */
const names = fc.oneof(
  fc.constantFrom(
    'id',
    'a',
    'A',
    'a_b',
    'a.b',
    'b',
    'userId',
    'user_id',
    'User Id',
    '',
    'select',
    '__proto__',
    'k\0',
  ),
  fc.constantFrom('amount', 'price', 'at', 'who'),
);

const scalars = fc.oneof(
  fc.boolean(),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc
    .bigInt({ min: -(10n ** 22n), max: 10n ** 22n })
    .map((digits) => JSON.rawJSON(String(digits)) as unknown as Json),
  fc.string({ unit: 'binary', maxLength: 8 }),
  fc.constantFrom(
    '2024-02-29T12:00:00.120Z',
    '0001-01-01T00:00:00.000Z',
    '9999-12-31T23:59:59.999Z',
    'N/A',
    '5',
  ),
  fc.constantFrom('\0', '\ud800', 'a\tb\nc\rd\\N', '\\.', '\\N', '', "'; drop table x; --"),
  fc.constant(null),
);

const values: fc.Arbitrary<Json> = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalars as fc.Arbitrary<Json>,
    fc.array(tie('value'), { maxLength: 2 }) as fc.Arbitrary<Json>,
    fc.dictionary(names, tie('value'), { maxKeys: 3 }) as fc.Arbitrary<Json>,
  ),
})).value;

/** Properties with changing shapes, the same for one seed. */
export function randomProperties(count: number, seed: number): readonly JsonObject[] {
  return fc.sample(fc.dictionary(names, values, { maxKeys: 8 }) as fc.Arbitrary<JsonObject>, {
    numRuns: count,
    seed,
  });
}

/** The values that a row owes: of objects up to three levels, without `null` and empty objects. */
export function valuesOwed(
  object: JsonObject,
  path: readonly string[] = [],
): readonly (readonly [path: readonly string[], value: Json])[] {
  return Object.entries(object).flatMap(([name, value]) => {
    const at = [...path, name];
    if (value === null || (isObject(value) && Object.keys(value).length === 0)) return [];
    return isObject(value) && at.length < 3 ? valuesOwed(value, at) : [[at, value] as const];
  });
}

/** Whether the text of a column is the value. */
export function isText(text: string | boolean | null | undefined, value: Json): boolean {
  if (text === null || text === undefined) return false;
  if (typeof value === 'string') return text === value;
  const json = JSON.stringify(value);
  if (typeof value !== 'number' && !JSON.isRawJSON(value))
    return String(text) === json || (typeof value === 'object' && isSpelledOtherwise(String(text), json));
  return typeof text === 'string' && isSameNumber(text, json);
}

/** An engine that parses JSON may spell a number in another way; one with further digits is another number. */
function isSpelledOtherwise(text: string, json: string): boolean {
  try {
    return JSON.stringify(JSON.parse(text)) === json;
  } catch {
    return false;
  }
}

/** By their digits: a fraction of powers of ten. */
function isSameNumber(one: string, other: string): boolean {
  const parts = [one, other].map((text) => /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text));
  const [a, b] = parts.map((part) => {
    const [, sign = '', whole = '', fraction = '', exponent = '0'] = part ?? [];
    return { digits: BigInt(`${sign}${whole}${fraction}` || '0'), scale: fraction.length - Number(exponent) };
  });
  if (a === undefined || b === undefined || parts.includes(null)) return false;
  const scale = Math.max(a.scale, b.scale);
  return a.digits * 10n ** BigInt(scale - a.scale) === b.digits * 10n ** BigInt(scale - b.scale);
}
