import { type Headers, type NewEntry, partitionOf, type TopicSpec } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { RecordPacker } from './entries.ts';

const PACKED: TopicSpec = { name: 'events.production', partitions: 1, packed: true, retentionMs: 1 };
const PLAIN: TopicSpec = { name: 'deliveries', partitions: 1, packed: false, retentionMs: 1 };

function entry(value: string, headers: Headers = {}, key = 'k'): NewEntry {
  return { key, value, headers };
}

describe('record packer', () => {
  it('puts entries with the same headers into one record, by reference or by content', () => {
    const packer = new RecordPacker();
    const headers = { 'catalog-position': '7' };
    const packed = [
      packer.pack(PACKED, entry('1', headers)),
      packer.pack(PACKED, entry('2', headers)),
      packer.pack(PACKED, entry('3', { 'catalog-position': '7' })),
    ];
    expect(packed.map(({ record, index }) => [record, index])).toEqual([
      [0, 0],
      [0, 1],
      [0, 2],
    ]);
    expect(packer.partitions()).toMatchObject([{ keys: [''], counts: [3], values: ['1', '2', '3'] }]);
  });

  it('never moves an entry before an earlier one of its partition, whatever their headers', () => {
    const packer = new RecordPacker();
    const [a, b] = [{ 'catalog-position': '1' }, { 'catalog-position': '2' }];
    packer.pack(PACKED, entry('1', a));
    packer.pack(PACKED, entry('2', b));
    packer.pack(PACKED, entry('3', a));
    expect(packer.partitions()).toMatchObject([{ counts: [1, 1, 1], values: ['1', '2', '3'] }]);
  });

  it('begins a new record when one grows large', () => {
    const packer = new RecordPacker();
    const large = 'x'.repeat(200 * 1024);
    for (let i = 0; i < 3; i++) packer.pack(PACKED, entry(large));
    expect(packer.partitions()).toMatchObject([{ counts: [1, 1, 1] }]);
  });

  it('makes one record an entry, with its key, on a topic that is not packed', () => {
    const packer = new RecordPacker();
    packer.pack(PLAIN, entry('1', {}, 'a'));
    packer.pack(PLAIN, entry('2', {}, 'b'));
    expect(packer.partitions()).toMatchObject([{ keys: ['a', 'b'], counts: [1, 1] }]);
  });

  it('places a key in the partition every client would choose', () => {
    const packer = new RecordPacker();
    const spec = { ...PLAIN, partitions: 8 };
    for (const key of ['a', 'b', 'c', 'd']) {
      expect(packer.pack(spec, entry('1', {}, key)).records.partition).toBe(partitionOf(key, 8));
    }
  });
});
