import kafkajs from 'kafkajs';
import snappy from 'snappyjs';
import { describe, expect, it } from 'vitest';
import './compression.ts';

const { CompressionCodecs, CompressionTypes } = kafkajs;
const TEXTS = ['a'.repeat(100_000), JSON.stringify(Array.from({ length: 9_000 }, (_, n) => n * n))];

const unsnap = (bytes: Buffer): Promise<Buffer> =>
  CompressionCodecs[CompressionTypes.Snappy]().decompress(bytes);
const blockOf = (text: string) => snappy.compress(Buffer.from(text));

describe('values compressed by snappy', () => {
  it('is a stream of blocks where Java wrote it', async () => {
    const header = Buffer.concat([
      Buffer.from([0x82]),
      Buffer.from('SNAPPY\0'),
      Buffer.from([0, 0, 0, 1, 0, 0, 0, 1]),
    ]);
    const blocks = TEXTS.map(blockOf).flatMap((block) => {
      const size = Buffer.alloc(4);
      size.writeInt32BE(block.length);
      return [size, block];
    });
    expect(String(await unsnap(Buffer.concat([header, ...blocks])))).toBe(TEXTS.join(''));
    expect(await unsnap(header)).toHaveLength(0);
  });

  it('is one block where librdkafka wrote it', async () => {
    for (const text of TEXTS) expect(String(await unsnap(blockOf(text)))).toBe(text);
  });

  it('is refused where it is cut off', async () => {
    await expect(unsnap(blockOf(TEXTS[1] ?? '').subarray(0, 1_000))).rejects.toThrow('Invalid Snappy');
  });
});
