import fc from 'fast-check';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { crc32c, WireWriter, writeBatch } from '../record-batch.ts';
import type { FetchAnswer, ProduceRequest, RecordToWrite } from './protocol.ts';
import {
  decodedFetch,
  encodedFetch,
  encodedProduce,
  encodedTxnOffsetCommit,
  FETCH,
  METADATA,
  TXN_OFFSET_COMMIT,
} from './requests.ts';

const text = fc.string({ unit: 'binary', maxLength: 200 });
const record = fc.record({
  key: fc.option(fc.string({ unit: 'binary', minLength: 1, maxLength: 80 })),
  value: fc.uint8Array({ maxLength: 20_000 }).map((bytes) => Buffer.from(bytes)),
  headers: fc.dictionary(fc.string({ unit: 'binary', minLength: 1, maxLength: 50 }), text, { maxKeys: 9 }),
});
const messages = fc.array(record, { minLength: 1, maxLength: 150 });
const partitions = fc.array(
  fc.record({ partition: fc.nat(127), firstSequence: fc.nat(2 ** 31 - 1), messages }),
  { minLength: 1, maxLength: 3 },
);
const topicData = fc.array(fc.record({ topic: fc.string({ minLength: 1, maxLength: 100 }), partitions }), {
  minLength: 1,
  maxLength: 2,
});
const transaction = fc.record({
  transactionalId: fc.string({ minLength: 1, maxLength: 100 }),
  producerId: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }).map(String),
  producerEpoch: fc.nat(2 ** 15 - 1),
});
const request: fc.Arbitrary<ProduceRequest> = fc
  .tuple(topicData, fc.option(transaction, { nil: undefined }))
  .map(([topics, producer]) => ({
    ...producer,
    acks: -1,
    timeout: 10_000,
    compression: 0,
    topicData: topics,
  }));

/** The body as kafkajs encodes it. */
async function byKafkajs(payload: ProduceRequest): Promise<Buffer> {
  const { request: theirs } = protocol.requests.Produce.protocol({ version: 7 })(payload);
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

  it.each([63, 64, 8_191, 8_192, 1_048_575, 1_048_576])('holds a value of %i bytes', async (size) => {
    const value = Buffer.alloc(size, 7);
    const payload: ProduceRequest = {
      acks: -1,
      timeout: 1,
      compression: 0,
      topicData: [
        {
          topic: 't',
          partitions: [{ partition: 0, messages: [{ key: null, value, headers: { a: 'ä€😀' } }] }],
        },
      ],
    };
    expect(encodedProduce(payload).buffer.equals(await byKafkajs(payload))).toBe(true);
  });
});

it('sums up as the standard’s example does', () => {
  const example = Buffer.from('..123456789.');
  expect(crc32c(example, 2, 11)).toBe(0xe3069283);
});

const hex = (text: string) => text.replaceAll(/\s/g, '');

describe('a fetch request', () => {
  const payload = {
    replicaId: -1,
    isolationLevel: 1,
    maxWaitTime: 500,
    minBytes: 1,
    maxBytes: 8_388_608,
    rackId: '',
    topics: [{ topic: 'ab', partitions: [{ partition: 3, fetchOffset: '258', maxBytes: 1_048_576 }] }],
  } as const;

  it('is version 12 where the broker knows it, byte by byte', () => {
    expect(encodedFetch(payload).buffer.toString('hex')).toBe(
      hex('00') + // tags of the header
        hex('ffffffff 000001f4 00000001 00800000 01') + // replica, wait, min and max bytes, read committed
        hex('00000000 ffffffff') + // no session
        hex('02 03 6162') + // one topic: "ab"
        hex('02 00000003 ffffffff 0000000000000102 ffffffff ffffffffffffffff 00100000 00') + // one partition
        hex('00 01 01 00'), // tags, no forgotten topics, no rack, tags
    );
  });

  it.each([
    [4, 4],
    [11, 11],
    [12, 12],
  ])('is version %i where the broker knows no newer one', (version, sent) => {
    expect(FETCH.versions.map(Number)).toContain(version);
    expect(FETCH.protocol({ version })(payload).request.apiVersion).toBe(sent);
  });
});

describe('the answer to a fetch', () => {
  const records = (count: number): RecordToWrite[] =>
    Array.from({ length: count }, (_, i) => ({
      key: i % 2 === 0 ? `key ${i}` : null,
      value: Buffer.from('x'.repeat(i)),
      headers: i % 3 === 0 ? { 'catalog-position': String(i), ä: '€' } : {},
    }));

  /** A batch as brokers keep it, i.e. without the size that a produce request has before it. */
  function batchOf(written: readonly RecordToWrite[], baseOffset: number, transactional = false): Buffer {
    const writer = new WireWriter(1 << 20);
    const [producerId, producerEpoch, firstSequence] = [7n, 0, 0];
    writeBatch(writer, written, {
      producerId,
      producerEpoch,
      firstSequence,
      transactional,
      timestamp: 1_767,
    });
    const batch = Buffer.from(writer.buffer.subarray(4, writer.at));
    batch.writeBigInt64BE(BigInt(baseOffset));
    return batch;
  }

  function answerIn12(recordSet: Buffer): Buffer {
    const writer = new WireWriter(1 << 20);
    writer.noTags();
    writer.int32(5); // throttle time
    writer.int16(0);
    writer.int32(0);
    writer.compactArray(['t'], (topic) => {
      writer.compactText(topic);
      writer.compactArray([0], (partition) => {
        writer.int32(partition);
        writer.int16(0);
        for (const offset of [90n, 80n, 0n]) writer.int64(offset);
        writer.compactArray([3n], (firstOffset) => {
          writer.int64(7n);
          writer.int64(firstOffset);
          writer.noTags();
        });
        writer.int32(-1);
        writer.unsigned(recordSet.length + 1);
        writer.bytes(recordSet);
        // A tagged field of a newer broker: tag 2, one byte.
        for (const byte of [1, 2, 1, 9]) writer.int8(byte);
      });
      writer.noTags();
    });
    writer.noTags();
    return writer.buffer.subarray(0, writer.at);
  }

  function answerIn11(recordSet: Buffer): Buffer {
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

  const payload = {
    replicaId: -1,
    isolationLevel: 1,
    maxWaitTime: 1,
    minBytes: 1,
    maxBytes: 1,
    rackId: '',
    topics: [],
  } as const;
  const by11 = (bytes: Buffer) => FETCH.protocol({ version: 11 })(payload).response.decode(bytes);
  const partitionsOf = (answer: FetchAnswer) => answer.responses.flatMap(({ partitions }) => partitions);

  it('has the same records in version 12 as by the decoder of kafkajs in version 11', async () => {
    const set = Buffer.concat([batchOf(records(40), 100), batchOf(records(3), 140, true)]);
    const [found] = partitionsOf(await decodedFetch(answerIn12(set)));
    expect([found]).toEqual(partitionsOf(await by11(answerIn11(set))));
    expect(found).toMatchObject({
      highWatermark: 90,
      abortedTransactions: [{ producerId: 7n, firstOffset: 3 }],
    });
    expect(found?.batches.map(({ records: { length }, lastOffset }) => [length, lastOffset])).toEqual([
      [40, 139],
      [3, 142],
    ]);
  });

  it('keeps a batch without records, and leaves out one that its end cuts off', async () => {
    const empty = batchOf([], 200);
    empty.writeInt32BE(4, 23); // it had four records
    const set = Buffer.concat([batchOf(records(1), 199), empty, batchOf(records(9), 205).subarray(0, 80)]);
    const [found] = partitionsOf(await decodedFetch(answerIn12(set)));
    expect(found?.batches.map(({ lastOffset }) => lastOffset)).toEqual([199, 204]);
    expect(partitionsOf(await decodedFetch(answerIn12(Buffer.alloc(0))))[0]?.batches).toEqual([]);
  });

  it('has a fault of the partition where a record does not end at its stated length', async () => {
    const set = batchOf(records(2), 0);
    set[61] = 0x10;
    const partition = (await decodedFetch(answerIn12(set))).responses[0]?.partitions[0];
    expect(partition).toMatchObject({ errorCode: 0, batches: [] });
    expect(String(partition?.fault)).toMatch(/malformed record|beyond its bytes/);
  });

  it('is an error where the broker refuses all of it', async () => {
    const refused = answerIn12(Buffer.alloc(0));
    refused.writeInt16BE(29, 5);
    await expect(decodedFetch(refused)).rejects.toMatchObject({ type: 'TOPIC_AUTHORIZATION_FAILED' });
  });
});

describe('a position stored in a transaction', () => {
  const payload = {
    producer: { transactionalId: 'tx', producerId: '513', producerEpoch: 2 },
    member: { groupId: 'g', memberId: 'm1', generationId: 9 },
    topics: [{ topic: 'ab', partitions: [{ partition: 1, offset: '300', metadata: '4' }] }],
  } as const;

  it('names its member and generation in version 3, byte by byte', () => {
    expect(encodedTxnOffsetCommit(payload).buffer.toString('hex')).toBe(
      hex('00 03 7478 02 67') + // tags of the header, transactional id, group
        hex('0000000000000201 0002') + // producer
        hex('00000009 03 6d31 00') + // generation, member, no static member
        hex('02 03 6162 02') + // one topic with one partition
        hex('00000001 000000000000012c ffffffff 02 34 00') + // offset 300, no leader epoch, metadata
        hex('00 00'),
    );
  });

  it('is refused with the error of its partition', async () => {
    const { response } = TXN_OFFSET_COMMIT.protocol({ version: 3 })(payload);
    const answer = (error: string) =>
      Buffer.from(hex(`00 00000000 02 03 6162 02 00000001 ${error} 00 00 00`), 'hex');
    await expect(response.decode(answer('0016')).then(response.parse)).rejects.toMatchObject({
      type: 'ILLEGAL_GENERATION',
    });
    await response.decode(answer('0000')).then(response.parse);
  });

  it.each([
    [0, 0],
    [1, 1],
    [2, 1],
    [3, 3],
  ])('where the broker knows version %i is sent in version %i', (version, sent) => {
    expect(TXN_OFFSET_COMMIT.protocol({ version })(payload).request.apiVersion).toBe(sent);
  });
});
