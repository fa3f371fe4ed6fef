import type { ColumnType, ColumnValue } from '@tributary/core';

/*
 * Values as Parquet stores them: integers are bigints, decimals are bigints without their point, times are microseconds since
 * 1970, the others are texts. All conversions are exact.
 */

export type Cell = string | number | bigint | boolean | null;

/** Digits of a decimal, before and behind the point. No reader has more than 38. */
export const DECIMAL = { whole: 20, fraction: 18 } as const;

const SCALE = 10n ** BigInt(DECIMAL.fraction);
const MILLISECONDS = '0001-01-01T00:00:00.000'.length;

/** The value of a row, which its column holds. */
export function cellOf(value: ColumnValue, type: ColumnType): Cell {
  if (typeof value !== 'string') return value;
  switch (type) {
    case 'bigint':
      return BigInt(value);
    case 'numeric':
      return decimalOf(value);
    case 'double':
      return Number(value);
    case 'timestamp':
      return microsecondsOf(value);
    default:
      return value;
  }
}

/** A value of a column in the column that it is widened to. */
export function widenedCell(cell: Cell, from: ColumnType, to: ColumnType): Cell {
  if (cell === null || from === to) return cell;
  if (typeof cell === 'bigint' && from === 'bigint' && to === 'numeric') return cell * SCALE;
  return textOf(cell, from);
}

/** The text of a cell, as rows have it. */
function textOf(cell: Exclude<Cell, null>, type: ColumnType): string {
  if (typeof cell === 'bigint' && type === 'numeric') return digitsOfDecimal(cell);
  if (typeof cell === 'bigint' && type === 'timestamp') return timeOf(cell);
  return typeof cell === 'number' ? digitsOfDouble(cell) : String(cell);
}

function decimalOf(digits: string): bigint {
  const [whole = '', fraction = ''] = digits.split('.');
  return BigInt(whole + fraction.padEnd(DECIMAL.fraction, '0'));
}

function digitsOfDecimal(unscaled: bigint): string {
  const sign = unscaled < 0n ? '-' : '';
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(DECIMAL.fraction + 1, '0');
  const fraction = digits.slice(-DECIMAL.fraction).replace(/0+$/, '');
  return `${sign}${digits.slice(0, -DECIMAL.fraction)}${fraction === '' ? '' : `.${fraction}`}`;
}

/** The digits of a double without an exponent, as texts of numbers are. */
function digitsOfDouble(number: number): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(number)) ?? [];
  const digits = whole + fraction;
  const point = whole.length + Number(exponent);
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`;
  if (point >= digits.length) return sign + digits.padEnd(point, '0');
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
}

function microsecondsOf(time: string): bigint {
  const isWhole = time.length <= MILLISECONDS + 1;
  const milliseconds = Date.parse(isWhole ? time : `${time.slice(0, MILLISECONDS)}Z`);
  const microseconds = milliseconds * 1_000;
  const exact = Number.isSafeInteger(microseconds) ? BigInt(microseconds) : BigInt(milliseconds) * 1_000n;
  return isWhole ? exact : exact + BigInt(time.slice(MILLISECONDS, -1).padEnd(3, '0'));
}

function timeOf(microseconds: bigint): string {
  const below = ((microseconds % 1_000n) + 1_000n) % 1_000n;
  const text = new Date(Number((microseconds - below) / 1_000n)).toISOString();
  return below === 0n ? text : `${text.slice(0, -1)}${String(below).padStart(3, '0').replace(/0+$/, '')}Z`;
}
