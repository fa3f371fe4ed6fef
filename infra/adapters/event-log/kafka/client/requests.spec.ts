import fc from 'fast-check';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { crc32c, WireWriter, writeBatch } from '../record-batch.ts';
import type { ProduceRequest, RecordToWrite } from './protocol.ts';
import { decodedFetch, encodedProduce, METADATA, TXN_OFFSET_COMMIT } from './requests.ts';

// Together below the size from which batches are compressed.
const text = fc.string({ unit: 'binary', maxLength: 40 });
const record = fc.record({
  key: fc.option(fc.string({ unit: 'binary', minLength: 1, maxLength: 40 })),
  value: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  headers: fc.dictionary(fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }), text, { maxKeys: 4 }),
});
const messages = fc.array(record, { minLength: 1, maxLength: 8 });
const batches = fc.array(
  fc.record({
    topic: fc.constantFrom('events', 'ünïcode', 't'.repeat(100)),
    partition: fc.nat(127),
    firstSequence: fc.nat(2 ** 31 - 1),
    messages,
  }),
  { minLength: 1, maxLength: 6 },
);
const transaction = fc.record({
  transactionalId: fc.string({ minLength: 1, maxLength: 100 }),
  producerId: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }).map(String),
  producerEpoch: fc.nat(2 ** 15 - 1),
});
const request: fc.Arbitrary<ProduceRequest> = fc
  .tuple(batches, fc.option(transaction, { nil: undefined }))
  .map(([all, producer]) => ({
    ...producer,
    acks: -1,
    timeout: 10_000,
    batches: all,
  }));

/** The body as kafkajs encodes it. */
async function byKafkajs(payload: ProduceRequest): Promise<Buffer> {
  const byTopic = Map.groupBy(payload.batches, ({ topic }) => topic);
  const topicData = [...byTopic].map(([topic, partitions]) => ({ topic, partitions }));
  const { request: theirs } = protocol.requests.Produce.protocol({ version: 7 })({
    ...payload,
    topicData,
  } as ProduceRequest);
  const { buffer } = (await theirs.encode()) as { readonly buffer: Buffer };
  return buffer;
}

describe('a metadata request', () => {
  const bytesOf = async (definition: typeof METADATA, version: number, topics: readonly string[]) => {
    const { request } = definition.protocol({ version })({ topics, allowAutoTopicCreation: false });
    return ((await request.encode()) as { readonly buffer: Buffer }).buffer;
  };

  it.each(METADATA.versions.map(Number))(
    'in version %i is kafkajs’s, but without topics asks for none',
    async (version) => {
      const { Metadata } = protocol.requests;
      const some = ['one', 'two'];
      expect(await bytesOf(METADATA, version, some)).toEqual(await bytesOf(Metadata, version, some));
      expect(await bytesOf(METADATA, version, [])).toEqual(Buffer.from([0, 0, 0, 0, 0]));
      // The length of a null array, which means all topics.
      expect(await bytesOf(Metadata, version, [])).toEqual(Buffer.from([0xff, 0xff, 0xff, 0xff, 0]));
    },
  );
});

describe('a produce request', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: 1_767_225_600_123 }));
  afterEach(() => void vi.useRealTimers());

  it('is byte by byte what kafkajs makes of it', async () => {
    await fc.assert(
      fc.asyncProperty(request, async (payload) => {
        expect(encodedProduce(payload).buffer.equals(await byKafkajs(payload))).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it.each([63, 64, 8_191, 8_192])('holds a value of %i bytes', async (size) => {
    const value = Buffer.alloc(size, 7);
    const payload: ProduceRequest = {
      acks: -1,
      timeout: 1,
      batches: [{ topic: 't', partition: 0, messages: [{ key: null, value, headers: { a: 'ä€😀' } }] }],
    };
    expect(encodedProduce(payload).buffer.equals(await byKafkajs(payload))).toBe(true);
  });
});

it('sums up as the standard’s example does', () => {
  const example = Buffer.from('..123456789.');
  expect(crc32c(example, 2, 11)).toBe(0xe3069283);
});

describe('the answer to a fetch', () => {
  const records = (count: number): RecordToWrite[] =>
    Array.from({ length: count }, (_, i) => ({
      key: i % 2 === 0 ? `key ${i}` : null,
      value: Buffer.from('x'.repeat(i)),
      headers: i % 3 === 0 ? { 'catalog-position': String(i), ä: '€' } : {},
    }));

  /** A batch as brokers keep it, i.e. without the size that a produce request has before it. */
  function batchOf(written: readonly RecordToWrite[], baseOffset: number): Buffer {
    const writer = new WireWriter(1 << 20);
    const [producerId, producerEpoch, firstSequence] = [7n, 0, 0];
    writeBatch(writer, written, {
      producerId,
      producerEpoch,
      firstSequence,
      transactional: false,
      timestamp: 1_767,
      codec: 4,
    });
    const batch = Buffer.from(writer.buffer.subarray(4, writer.at));
    batch.writeBigInt64BE(BigInt(baseOffset));
    return batch;
  }

  function answerWith(recordSet: Buffer): Buffer {
    const writer = new WireWriter(1 << 20);
    writer.int32(5);
    writer.int16(0);
    writer.int32(0);
    writer.int32(1);
    writer.int16(1);
    writer.bytes(Buffer.from('t'));
    writer.int32(1);
    writer.int32(0);
    writer.int16(0);
    for (const offset of [90n, 80n, 0n]) writer.int64(offset);
    writer.int32(1);
    writer.int64(7n);
    writer.int64(3n);
    writer.int32(-1);
    writer.int32(recordSet.length);
    writer.bytes(recordSet);
    return writer.buffer.subarray(0, writer.at);
  }

  const partitionOf = async (recordSet: Buffer) =>
    (await decodedFetch(answerWith(recordSet))).partitions.get('t/0');

  it('keeps a batch without records, and leaves out one that its end cuts off', async () => {
    const empty = batchOf([], 200);
    empty.writeInt32BE(4, 23); // it had four records
    const set = Buffer.concat([batchOf(records(1), 199), empty, batchOf(records(9), 205).subarray(0, 80)]);
    const found = await partitionOf(set);
    expect(found).toMatchObject({ abortedTransactions: [{ producerId: 7n, firstOffset: 3 }] });
    expect(found?.batches.map(({ lastOffset }) => lastOffset)).toEqual([199, 204]);
    expect((await partitionOf(Buffer.alloc(0)))?.batches).toEqual([]);
  });

  it('has a fault of the partition where a record does not end at its stated length', async () => {
    const set = batchOf(records(2), 0);
    set[61] = 0x10;
    const partition = await partitionOf(set);
    expect(partition).toMatchObject({ errorCode: 0, batches: [] });
    expect(String(partition?.fault)).toMatch(/malformed record|beyond its bytes/);
  });

  it('is an error where the broker refuses all of it', async () => {
    const refused = answerWith(Buffer.alloc(0));
    refused.writeInt16BE(29, 4);
    await expect(decodedFetch(refused)).rejects.toMatchObject({ type: 'TOPIC_AUTHORIZATION_FAILED' });
  });
});

describe('a position stored in a transaction', () => {
  it('is refused with the error of its partition', async () => {
    const { decode } = TXN_OFFSET_COMMIT.protocol({ version: 3 })({
      producer: { transactionalId: 'tx', producerId: '513', producerEpoch: 2 },
      member: { groupId: 'g', memberId: 'm1', generationId: 9 },
      position: { topic: 'ab', partition: 1, offset: 1, metadata: '' },
    }).response;
    const answer = (error: string) => Buffer.from(`0000000000020361620200000001${error}000000`, 'hex');
    await expect(decode(answer('0016'))).rejects.toMatchObject({ type: 'ILLEGAL_GENERATION' });
    await decode(answer('0000'));
  });
});
