import { expect, it } from 'vitest';
import type { RecordToWrite } from '../client/protocol.ts';
import { readBatches, roomFor, writeBatch } from './record-batch.ts';
import { WireWriter } from './wire.ts';

const NO_PRODUCER = { producerId: -1n, producerEpoch: 0, firstSequence: 0, transactional: false } as const;
const AT = 1_790_000_000_000;

async function written(records: readonly RecordToWrite[], compression: 0 | 1) {
  const writer = new WireWriter(roomFor(records) + 4);
  writeBatch(writer, records, { ...NO_PRODUCER, timestamp: AT, compression });
  // The size before the batch belongs to the produce request.
  return writer.buffer.subarray(4, writer.at);
}

it.each([0, 1] as const)(
  'gives records the timestamps that they come with (compression %i)',
  async (compression) => {
    const records = [0, 0, 5, 2 ** 30 - 1].map((ms, n) => ({
      key: n === 0 ? null : `k${n}`,
      value: Buffer.from(`{"n":${n}}`),
      headers: { n: String(n) },
      timestamp: AT - 86_400_000 + ms,
    }));
    const [batch, ...others] = await readBatches(await written(records, compression));
    expect(others).toEqual([]);
    expect(batch?.records).toEqual(records.map((record, offset) => ({ ...record, offset })));
  },
);

it('gives records without a timestamp the time of the request', async () => {
  const records = [{ key: 'k', value: Buffer.from('1'), headers: {} }];
  const [batch] = await readBatches(await written(records, 0));
  expect(batch?.records).toMatchObject([{ timestamp: AT }]);
});

it('makes filler small', async () => {
  const filler = { key: null, value: Buffer.alloc(0), headers: {}, timestamp: AT };
  const bytes = await written(new Array<RecordToWrite>(100_000).fill(filler), 1);
  expect(bytes.length).toBeLessThan(400_000);
  const [batch] = await readBatches(bytes);
  expect(batch?.lastOffset).toBe(99_999);
});
