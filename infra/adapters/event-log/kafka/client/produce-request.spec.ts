import fc from 'fast-check';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { crc32c } from '../records/crc32c.ts';
import { encodedProduce } from './produce-request.ts';
import type { ProduceRequest } from './protocol.ts';

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
