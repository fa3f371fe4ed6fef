import { randomBytes } from 'node:crypto';
import snappy from 'snappyjs';
import { describe, expect, it } from 'vitest';
import { type RecordToWrite, MAX_TIMESTAMP_SPAN_MS as SPAN } from './client/protocol.ts';
import { cutBatches, readBatches, roomFor, unsnap, WireWriter, writeBatch } from './record-batch.ts';

const NO_PRODUCER = { producerId: -1n, producerEpoch: 0, firstSequence: 0, transactional: false } as const;
const AT = 1_790_000_000_000;

function written(records: readonly RecordToWrite[], codec: 1 | 4 = 4) {
  const writer = new WireWriter(roomFor(records) + 4);
  writeBatch(writer, records, { ...NO_PRODUCER, timestamp: AT, codec });
  // The size before the batch belongs to the produce request.
  return writer.buffer.subarray(4, writer.at);
}

it('makes filler small', async () => {
  const filler = { key: null, value: Buffer.alloc(0), headers: {}, timestamp: AT };
  const bytes = written(new Array<RecordToWrite>(100_000).fill(filler));
  expect(bytes.length).toBeLessThan(400_000);
  const [batch] = await readBatches(bytes);
  expect(batch?.lastOffset).toBe(99_999);
});

it('decodes no more of an answer than a stage wants at a time, however small it is compressed', async () => {
  const batches = Array.from({ length: 40 }, (_, n) => {
    const bytes = written([{ key: null, value: Buffer.alloc(700_000, 97), headers: {} }]);
    bytes.writeBigInt64BE(BigInt(n));
    return bytes;
  });
  const answer = Buffer.concat(batches);
  expect(answer.length).toBeLessThan(50_000);
  const read = await readBatches(answer);
  expect(read.map(({ lastOffset }) => lastOffset)).toEqual([0, 1]);
});

describe('a large batch', () => {
  const codecOf = (bytes: Buffer) => bytes.readInt16BE(21) & 0b111;
  const alike = Array.from({ length: 100 }, (_, n) => ({
    key: `k${n}`,
    value: Buffer.from(`{"n":${n},"text":"${'a text like all others '.repeat(10)}"}`),
    headers: { n: String(n) },
  }));

  it.each([1, 4] as const)(
    'took its whole size at the broker: it is compressed (codec %i)',
    async (codec) => {
      const bytes = written(alike, codec);
      expect([codecOf(bytes), bytes.length < 5_000]).toEqual([codec, true]);
      const [batch] = await readBatches(bytes);
      expect(batch?.records).toEqual(alike.map((record, offset) => ({ ...record, offset, timestamp: AT })));
    },
  );

  it('is written as it is where compression saves next to nothing, and so is a small one', async () => {
    const random = [{ key: null, value: randomBytes(40_000), headers: {} }];
    for (const records of [random, alike.slice(0, 20)]) {
      const bytes = written(records);
      expect(codecOf(bytes)).toBe(0);
      const [batch] = await readBatches(bytes);
      expect(batch?.records.map(({ value }) => value)).toEqual(records.map(({ value }) => value));
    }
  });
});

const TEXTS = ['a'.repeat(100_000), JSON.stringify(Array.from({ length: 9_000 }, (_, n) => n * n))];

const blockOf = (text: string) => snappy.compress(Buffer.from(text));

describe('values compressed by snappy', () => {
  it('is one block where librdkafka wrote it', () => {
    for (const text of TEXTS) expect(String(unsnap(blockOf(text)))).toBe(text);
  });

  it('is refused where it is cut off', () => {
    expect(() => unsnap(blockOf(TEXTS[1] ?? '').subarray(0, 1_000))).toThrow('Invalid Snappy');
  });
});

describe('records that keep their times', () => {
  const at = (timestamp: number, bytes = 10): RecordToWrite => ({
    key: null,
    value: Buffer.alloc(bytes),
    headers: {},
    timestamp,
  });
  it.each<[string, readonly RecordToWrite[], readonly (readonly number[])[], number?]>([
    ['by bytes, a larger one alone', [at(1), at(2), at(3, 500), at(4), at(5)], [[1, 2], [3], [4, 5]], 200],
    [
      'where a clock was set back',
      [at(5), at(5), at(4), at(6)],
      [
        [5, 5],
        [4, 6],
      ],
    ],
    ['where a batch cannot express the difference', [at(0), at(SPAN - 1), at(SPAN)], [[0, SPAN - 1], [SPAN]]],
    ['into none', [], []],
  ])('are cut %s', (_, records, batches, maxBytes) => {
    expect(cutBatches(records, maxBytes).map((batch) => batch.map(({ timestamp }) => timestamp))).toEqual(
      batches,
    );
  });
});
