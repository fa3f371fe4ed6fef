import { WarehouseRefused } from '@tributary/core';
import { expect, test } from 'vitest';
import { ledgerRow } from './tables.ts';

const RANGES = [{ topic: 'events.accepted', partition: 0, from: 3, to: 5 }];
const AT = '2024-03-01T00:00:00.000Z';
const READ = { seq: 2, batch: 'b', ranges: RANGES, counts: { tracks: 2 }, loaded_at: new Date(AT) };

test.each([
  ['parsed values', READ],
  [
    'texts',
    {
      seq: '2',
      batch: 'b',
      ranges: JSON.stringify(RANGES),
      counts: '{"tracks":2,"order":"many"}',
      loaded_at: AT,
    },
  ],
])('a row is read from %s', (_title, row) => {
  expect(ledgerRow('live', row)).toEqual({
    lane: 'live',
    seq: 2,
    batch: 'b',
    ranges: RANGES,
    rows: { tracks: 2 },
    loadedAt: AT,
  });
});

test.each([
  ['ranges', '[{"topic":"events.accepted"}]'],
  ['ranges', '[{"topic":"events.accepted","partition":0,"from":"3","to":5}]'],
  ['ranges', 'none'],
  ['seq', 'two'],
  ['batch', null],
  ['loaded_at', 'yesterday'],
])('a row whose %s is %s is refused: loading would begin somewhere else', (column, value) => {
  expect(() => ledgerRow('live', { ...READ, [column]: value })).toThrow(WarehouseRefused);
});
