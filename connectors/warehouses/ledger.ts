import { isObject, type LedgerRow, type LogRange, WarehouseRefused } from '@tributary/core';

/** The table with a row for each load, in every engine. */
export const LEDGER = '_tributary_loads';
/** Rows of a lane that are kept in it: the newest one counts. */
export const KEPT_LOADS = 1_000;

/**
 * A row of the ledger as the driver of an engine read it, checked: its ranges decide what is loaded next. The columns are `seq`
 * (a number or its digits), `batch`, `ranges` and `counts` (JSON, as text or parsed), and `loaded_at` (a date, or ISO 8601 with
 * its zone).
 */
export function ledgerRow(lane: string, row: Readonly<Record<string, unknown>>): LedgerRow {
  const { batch } = row;
  const seq = Number(row.seq);
  const ranges = parsed(row.ranges);
  const loadedAt = timeOf(row.loaded_at);
  if (
    !Number.isSafeInteger(seq) ||
    typeof batch !== 'string' ||
    !Array.isArray(ranges) ||
    !ranges.every(isRange) ||
    loadedAt === undefined
  )
    throw new WarehouseRefused(`the newest row of ${LEDGER} was changed by hand`);
  return { lane, seq, batch, ranges, rows: countsOf(parsed(row.counts)), loadedAt };
}

/** Undefined for a text that is no JSON. */
function parsed(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}

function isRange(range: unknown): range is LogRange {
  if (!isObject(range)) return false;
  const { topic, partition, from, to } = range;
  return typeof topic === 'string' && [partition, from, to].every((number) => Number.isSafeInteger(number));
}

function timeOf(value: unknown): string | undefined {
  const time = value instanceof Date ? value : new Date(typeof value === 'string' ? value : Number.NaN);
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString();
}

/** Rows by table are told to people only: what is no number is left out. */
function countsOf(counts: unknown): LedgerRow['rows'] {
  const entries = Object.entries(isObject(counts) ? counts : {});
  return Object.fromEntries(
    entries.filter((entry): entry is [string, number] => typeof entry[1] === 'number'),
  );
}
