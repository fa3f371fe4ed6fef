import protocol from 'kafkajs/src/protocol/requests/index.js';
import { roomFor, writeBatch } from '../records/record-batch.ts';
import { RecordWriter } from '../records/record-writer.ts';
import type { Definition } from './kafkajs-shapes.ts';
import type { ProduceAnswer, ProduceRequest } from './protocol.ts';

/** What a topic and a partition cost at most in a request beside name and records. */
const FRAME_BYTES = 32;

/** As kafkajs passes requests on. */
interface Encoded {
  readonly buf: Buffer;
  readonly buffer: Buffer;
}

const { Produce } = protocol.requests;

/**
 * kafkajs's Produce with a writer of our own: its encoders, several a record, took most of the time of a stage that
 * copies. The layout is that of versions 3 to 7, the oldest with record batches and the newest that kafkajs knows.
 */
export const PRODUCE: Definition<ProduceRequest, ProduceAnswer> = {
  versions: Produce.versions,
  protocol: (version) => (payload) => {
    const exchange = Produce.protocol(version)(payload);
    return { ...exchange, request: { ...exchange.request, encode: async () => encodedProduce(payload) } };
  },
};

/** The body of the request. */
export function encodedProduce(request: ProduceRequest): Encoded {
  const { transactionalId, acks, timeout, topicData } = request;
  const writer = new RecordWriter(roomOf(request));
  writeName(writer, transactionalId);
  writer.int16(acks);
  writer.int32(timeout);
  writer.int32(topicData.length);
  const timestamp = Date.now();
  for (const { topic, partitions } of topicData) {
    writeName(writer, topic);
    writer.int32(partitions.length);
    for (const { partition, messages, firstSequence = 0 } of partitions) {
      writer.int32(partition);
      writeBatch(writer, messages, {
        producerId: BigInt(request.producerId ?? -1),
        producerEpoch: request.producerEpoch ?? 0,
        firstSequence,
        transactional: transactionalId !== undefined,
        timestamp,
      });
    }
  }
  const buf = writer.buffer.subarray(0, writer.at);
  return { buf, buffer: buf };
}

function roomOf({ transactionalId = '', topicData }: ProduceRequest): number {
  let bytes = FRAME_BYTES + Buffer.byteLength(transactionalId);
  for (const { topic, partitions } of topicData) {
    bytes += FRAME_BYTES + Buffer.byteLength(topic);
    for (const { messages } of partitions) bytes += FRAME_BYTES + roomFor(messages);
  }
  return bytes;
}

/** A text of the request's frame: its length has two bytes, -1 for none. */
function writeName(writer: RecordWriter, name: string | undefined): void {
  if (name === undefined) {
    writer.int16(-1);
    return;
  }
  const bytes = Buffer.from(name);
  writer.int16(bytes.length);
  writer.bytes(bytes);
}
