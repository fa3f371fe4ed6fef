import { type LedgerRow, WarehouseRefused } from '@tributary/core';

/** The table of the ledger, in every engine that has tables. */
export const LEDGER = '_tributary_loads';

/** A row of the ledger, checked: its ranges decide what is loaded next. */
export function ledgerRow(lane: string, row: Readonly<Record<string, unknown>>): LedgerRow {
  const { batch, ranges, counts, loaded_at: loadedAt } = row;
  const seq = Number(row.seq);
  if (
    !Number.isSafeInteger(seq) ||
    typeof batch !== 'string' ||
    !Array.isArray(ranges) ||
    !ranges.every(isRange) ||
    !(loadedAt instanceof Date)
  )
    throw new WarehouseRefused(`the newest row of ${LEDGER} was changed by hand`);
  const rows = typeof counts === 'object' && counts !== null ? (counts as LedgerRow['rows']) : {};
  return { lane, seq, batch, ranges, rows, loadedAt: loadedAt.toISOString() };
}

function isRange(range: unknown): range is LedgerRow['ranges'][number] {
  if (typeof range !== 'object' || range === null) return false;
  const { topic, partition, from, to } = range as Readonly<Record<string, unknown>>;
  return typeof topic === 'string' && [partition, from, to].every((number) => Number.isSafeInteger(number));
}
