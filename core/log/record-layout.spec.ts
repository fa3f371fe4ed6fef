import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { murmur2, pack, partitionOf, unpack } from './record-layout.ts';

describe('packing', () => {
  it('gives back the same texts, in order', () => {
    const texts = fc.array(
      fc.jsonValue().map((value) => JSON.stringify(value)),
      { minLength: 1 },
    );
    fc.assert(
      fc.property(texts, (values) => {
        expect(unpack(pack(values))).toEqual(values);
      }),
    );
  });

  it('keeps newlines inside of strings, and line separators that are no newline', () => {
    const values = ['{"a":"x\\ny"}', JSON.stringify('\u2028\u2029\u0085\r'), JSON.stringify('a\nb')];
    expect(unpack(pack(values))).toEqual(values);
  });
});

describe('murmur2', () => {
  /** The values that Kafka's own clients compute (signed 32 bits), for every length modulo 4. */
  it.each([
    ['21', -973932308],
    ['foobar', -790332482],
    ['a-little-bit-long-string', -985981536],
    ['a-little-bit-longer-string', -1486304829],
    ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
    ['abc', 479470107],
  ])('of %s', (text, expected) => {
    expect(murmur2(Buffer.from(text))).toBe(expected);
  });
});

describe('partitionOf', () => {
  it('masks the sign and divides, as Kafka does', () => {
    expect(partitionOf('21', 12)).toBe((-973932308 & 0x7fffffff) % 12);
    expect(partitionOf('abc', 1000)).toBe(107);
    for (const key of ['é', 'é'.repeat(1_365), 'é'.repeat(1_366), 'k'.repeat(10_000)])
      expect(partitionOf(key, 1000)).toBe((murmur2(Buffer.from(key)) & 0x7fffffff) % 1000);
  });

  it('spreads keys over all partitions', () => {
    const counts = new Array<number>(8).fill(0);
    for (let i = 0; i < 8_000; i++) {
      const partition = partitionOf(`workspace:user-${i}`, 8);
      counts[partition] = (counts[partition] ?? 0) + 1;
    }
    for (const count of counts) expect(Math.abs(count - 1_000)).toBeLessThan(200);
  });
});
