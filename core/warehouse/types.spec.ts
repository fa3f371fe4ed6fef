import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '../event/event.ts';
import type { ColumnType } from '../ports/warehouse.ts';
import { LIMITS } from './model-warehouse.fixture.ts';
import { columnValue, decimalOf, fits, join, typeOf } from './types.ts';

const TYPES: readonly ColumnType[] = ['boolean', 'bigint', 'numeric', 'double', 'timestamp', 'text', 'json'];
/** An engine with bounds; no number is longer than its texts. */
const BOUNDED = { ...LIMITS, numeric: { whole: 29, fraction: 9 }, textBytes: 20_000 };
const raw = (digits: string) => JSON.rawJSON(digits) as unknown as Json;

describe('the type of a value', () => {
  it.each([
    [10, 'bigint', 'bigint'],
    [10.5, 'numeric', 'numeric'],
    [-0, 'bigint', 'bigint'],
    [0.1 + 0.2, 'numeric', 'double'],
    [1e300, 'numeric', 'double'],
    [5e-324, 'numeric', 'double'],
    [2 ** 53, 'bigint', 'bigint'],
    [2 ** 63, 'numeric', 'numeric'],
    [-(2 ** 63), 'bigint', 'bigint'],
    [raw('9007199254740993'), 'bigint', 'bigint'],
    [raw('9223372036854775808'), 'numeric', 'numeric'],
    [raw('123456789012345678e1'), 'bigint', 'bigint'],
    [raw('0.12345678901234567890'), 'numeric', 'text'],
  ] as const)('report 17: %j is %s, and %s where numbers are bounded', (value, type, bounded) => {
    expect(typeOf(value, LIMITS)).toBe(type);
    expect(typeOf(value, BOUNDED)).toBe(bounded);
  });

  it.each([
    ['2024-02-29T12:00:00.000Z', 'timestamp'],
    ['0001-01-01T00:00:00.000Z', 'timestamp'],
    ['2026-01-01', 'text'],
    ['2026', 'text'],
    ['N/A', 'text'],
    ['', 'text'],
    ['0000-00-00', 'text'],
    ['0000-00-00T00:00:00.000Z', 'text'],
    ['1970-01-01T00:00:00+25:00', 'text'],
    ['2022-11-13T00:00:10.123456789Z', 'text'],
    ['2024-02-29T12:00:00+05:30', 'text'],
    ['2016-12-31T23:59:60.000Z', 'text'],
    ['2023-02-29T12:00:00.000Z', 'text'],
    ['+12026-01-01T00:00:00.000Z', 'text'],
  ] as const)('report 18, 32, 33: %j is %s', (value, type) => {
    expect(typeOf(value, LIMITS)).toBe(type);
  });

  it('is text for a time outside of the years that the engine has, and a timestamp column does not hold it', () => {
    const limits = { ...LIMITS, years: { first: 1900, last: 2299 } };
    const inside = ['1900-01-01T00:00:00.000Z', '2299-12-31T23:59:59.999Z'];
    const outside = ['1899-12-31T23:59:59.999Z', '2300-01-01T00:00:00.000Z'];
    for (const [times, type] of [
      [inside, 'timestamp'],
      [outside, 'text'],
    ] as const)
      for (const time of times) {
        expect(typeOf(time, limits)).toBe(type);
        expect(fits(time, 'timestamp', limits)).toBe(type === 'timestamp');
      }
    expect(fits('1900-01-01T01:00:00+02:00', 'timestamp', limits)).toBe(false);
  });

  it('is JSON for lists, and none for what has no value', () => {
    expect([[], [1], { a: 1 }, {}, null].map((value) => typeOf(value as Json, LIMITS))).toEqual([
      'json',
      'json',
      'json',
      undefined,
      undefined,
    ]);
  });
});

it('the join of types is associative, commutative and idempotent', () => {
  for (const a of TYPES)
    for (const b of TYPES) {
      expect(join(a, b)).toBe(join(b, a));
      expect(join(a, a)).toBe(a);
      for (const c of TYPES) expect(join(join(a, b), c)).toBe(join(a, join(b, c)));
    }
});

const exactNumbers = fc
  .tuple(fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }), fc.integer({ min: -30, max: 30 }))
  .map(([digits, exponent]) => raw(`${digits}e${exponent}`));
const values = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  exactNumbers,
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
) as fc.Arbitrary<Json>;

it('a value is held by its type, and by each one that its column is widened to', () => {
  fc.assert(
    fc.property(
      values,
      fc.constantFrom(...TYPES),
      fc.constantFrom(LIMITS, BOUNDED),
      (value, other, limits) => {
        const type = typeOf(value, limits);
        if (type === undefined || (typeof value === 'string' && !fits(value, 'text', limits))) return;
        if (type === 'json' && !fits(value, 'json', limits)) return;
        for (const wider of [type, join(type, other)])
          expect([wider, fits(value, wider, limits)]).toEqual([wider, true]);
      },
    ),
  );
});

it('a value that fits a type is the same in it', () => {
  fc.assert(
    fc.property(values, fc.constantFrom(...TYPES), (value, type) => {
      if (!fits(value, type, LIMITS)) return;
      const held = columnValue(value, type);
      if (type === 'boolean') expect(held).toBe(value);
      else if (type === 'json') expect(held).toBe(JSON.stringify(value));
      else if (type === 'timestamp') expect(Date.parse(String(held))).toBe(Date.parse(String(value)));
      else if (typeof value === 'string') expect(held).toBe(value);
      else if (typeof value === 'boolean' || (typeof value === 'object' && !JSON.isRawJSON(value)))
        expect(held).toBe(JSON.stringify(value));
      else expect(held).toBe(decimalOf(JSON.stringify(value)));
    }),
  );
});

it.each([
  ['1e3', '1000'],
  ['1.50', '1.5'],
  ['-0', '0'],
  ['0.0', '0'],
  ['-1.5e-3', '-0.0015'],
  ['120e-1', '12'],
  ['1e-7', '0.0000001'],
  ['12.34e1', '123.4'],
  ['0.00e5', '0'],
])('the number %s has the digits %s', (source, digits) => {
  expect(decimalOf(source)).toBe(digits);
});

it('a time is held to the microsecond, in UTC', () => {
  const held = (text: string) =>
    fits(text, 'timestamp', LIMITS) ? columnValue(text, 'timestamp') : undefined;
  expect(held('2024-02-29T12:00:00+05:30')).toBe('2024-02-29T06:30:00.000Z');
  expect(held('2024-02-29T12:00:00-00:00')).toBe('2024-02-29T12:00:00.000Z');
  expect(held('2022-11-13T00:00:10.123456000Z')).toBe('2022-11-13T00:00:10.123456Z');
  expect(held('2022-11-13T00:00:10.123456789Z')).toBeUndefined();
  expect(['', '0000-00-00', 'N/A', '12026-01-01'].map(held)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});
