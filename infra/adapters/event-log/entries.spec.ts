import { expect, it } from 'vitest';
import { RecordPacker } from './entries.ts';

it('begins a new packed record when one grows large, or larger than a broker takes', () => {
  const spec = { name: 'events.production', partitions: 1, packed: true, retentionMs: 1 };
  const countsOf = (packer: RecordPacker, length: number) => {
    for (let n = 0; n < 3; n++) packer.pack(spec, { key: 'k', value: 'x'.repeat(length), headers: {} });
    return packer.partitions().map(({ counts }) => counts);
  };
  expect(countsOf(new RecordPacker(), 50)).toEqual([[3]]);
  expect(countsOf(new RecordPacker(), 200 * 1024)).toEqual([[1, 1, 1]]);
  expect(countsOf(new RecordPacker(100), 50)).toEqual([[2, 1]]);
});
