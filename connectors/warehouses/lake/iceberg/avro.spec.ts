import { deflateRawSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { type AvroRecord, type AvroValue, readAvro, writeAvro } from './avro.ts';

const schema = {
  type: 'record',
  name: 'one',
  fields: [
    { name: 'id', type: 'long', 'field-id': 1 },
    { name: 'text', type: ['null', 'string'], 'field-id': 2 },
    {
      name: 'pairs',
      type: {
        type: 'array',
        items: { type: 'record', name: 'pair', fields: [{ name: 'key', type: 'int', 'field-id': 4 }] },
      },
      'field-id': 3,
    },
    { name: 'bytes', type: ['null', 'bytes'], 'field-id': 5 },
  ],
};
const record = (id: bigint): AvroRecord =>
  new Map<number, never>(
    Object.entries({ 1: id, 2: 'ü', 3: [new Map([[4, -7]])], 5: Uint8Array.of(1, 255) }).map(
      ([key, value]) => [Number(key), value as never],
    ),
  );

describe('a container of Avro', () => {
  it('has the digits of numbers of 64 bits, and what is missing as null', () => {
    const ids = [0n, -1n, 1n << 62n, -(1n << 63n), (1n << 63n) - 1n, 9_007_199_254_740_993n];
    const bytes = writeAvro({ schema, metadata: { 'format-version': '2' }, records: ids.map(record) });
    const read = readAvro(bytes);
    expect(read.records).toEqual(ids.map(record));
    expect(read.metadata).toEqual({ 'format-version': '2' });
    expect(read.schema).toEqual(schema);
    const sparse = new Map([
      [1, 1n as never],
      [3, [] as never],
    ]);
    expect(readAvro(writeAvro({ schema, metadata: {}, records: [sparse] })).records[0]?.get(2)).toBeNull();
  });

  it('that is cut, grown or made up is refused', () => {
    const bytes = writeAvro({ schema, metadata: {}, records: [record(1n)] });
    for (let length = 0; length < bytes.length; length++)
      // What ends behind its header has no block.
      if (length !== bytes.length - 16 - blockBytes(bytes))
        expect(() => readAvro(bytes.subarray(0, length))).toThrow();
    const large = deflateRawSync(Buffer.alloc(80 * 1_024 * 1_024));
    const header = writeAvro({ schema, metadata: {}, records: [] });
    const size = Buffer.alloc(5);
    for (let at = 0, rest = large.length * 2; at < 5; at++, rest = Math.floor(rest / 128))
      size[at] = (rest % 128) | (at < 4 ? 0x80 : 0);
    const bomb = Buffer.concat([header, Buffer.of(2), size, large, header.subarray(-16)]);
    expect(() => readAvro(bomb)).toThrow();
    expect(() => readAvro(Buffer.concat([header, Buffer.of(0xfe, 0xff, 0xff, 0xff, 0x0f)]))).toThrow();
  });

  it('with more values than a file may have, which take no bytes of it, is refused', () => {
    const items = { type: 'array', items: { type: 'array', items: 'null' } };
    const fields = [
      { name: 'many', type: items, 'field-id': 1 },
      { name: 'rest', type: 'bytes', 'field-id': 2 },
    ];
    const inner = Array.from({ length: 4_000 }, () => null);
    const many = Array.from({ length: 2_100 }, () => inner);
    const bytes = writeAvro({
      schema: { type: 'record', name: 'r', fields },
      metadata: {},
      records: [
        new Map<number, AvroValue>([
          [1, many],
          [2, Buffer.alloc(4_000)],
        ]),
      ],
    });
    expect(() => readAvro(bytes)).toThrow(/too many values/);
  });
});

/** Bytes of the only block before its end. */
function blockBytes(bytes: Uint8Array): number {
  return bytes.length - 16 - writeAvro({ schema, metadata: {}, records: [] }).length;
}
