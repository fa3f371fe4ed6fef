import { expect, it } from 'vitest';
import { MAX_TIMESTAMP_SPAN_MS, type RecordToWrite } from './client/protocol.ts';
import { timedBatches } from './log-import.ts';

const record = (timestamp: number, bytes = 10): RecordToWrite => ({
  key: null,
  value: Buffer.alloc(bytes),
  headers: {},
  timestamp,
});
const timesOf = (records: readonly RecordToWrite[], maxBytes?: number) =>
  [...timedBatches(records, maxBytes)].map((batch) => batch.map(({ timestamp }) => timestamp));

it('cuts batches by their bytes, and lets a larger record go alone', () => {
  expect(timesOf([record(1), record(2), record(3, 500), record(4), record(5)], 200)).toEqual([
    [1, 2],
    [3],
    [4, 5],
  ]);
});

it('cuts batches where a clock was set back, and where a batch cannot express the difference', () => {
  expect(timesOf([record(5), record(5), record(4), record(6)])).toEqual([
    [5, 5],
    [4, 6],
  ]);
  const span = MAX_TIMESTAMP_SPAN_MS;
  expect(timesOf([record(0), record(span - 1), record(span), record(3 * span)])).toEqual([
    [0, span - 1],
    [span],
    [3 * span],
  ]);
});

it('makes no batch of nothing', () => {
  expect(timesOf([])).toEqual([]);
});
