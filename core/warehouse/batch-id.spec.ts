import { expect, it } from 'vitest';
import { batchId } from './loads.ts';

it('a batch has the same id for the same ranges, in any order, and another one for any others', () => {
  const range = (partition: number, to: number) => ({ topic: 'events.accepted', partition, from: 0, to });
  const id = batchId('d', 'live', 1, [range(0, 5), range(1, 7)]);
  expect(id).toMatch(/^[0-9a-f]{16}$/);
  expect(batchId('d', 'live', 1, [range(1, 7), range(0, 5)])).toBe(id);
  const others = [
    batchId('e', 'live', 1, [range(0, 5), range(1, 7)]),
    batchId('d', 'replay', 1, [range(0, 5), range(1, 7)]),
    batchId('d', 'live', 2, [range(0, 5), range(1, 7)]),
    batchId('d', 'live', 1, [range(0, 5), range(1, 8)]),
  ];
  expect(new Set([id, ...others]).size).toBe(5);
});
