import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import { readBatches, roomFor, WireReader, WireWriter, writeBatch } from '../record-batch.ts';
import {
  type Definition,
  type FetchAnswer,
  type FetchRequest,
  failOn,
  type KafkajsProduceAnswer,
  type LogDirectory,
  type MetadataRequest,
  type PartitionsOfTopic,
  type ProduceRequest,
  type TxnOffsetCommitRequest,
} from './protocol.ts';

// Requests in encodings of our own, each in one version that every broker since the Kafka it names takes. kafkajs sends them
// and matches their answers.
//
// Flexible versions have a header that ends with tagged fields, in requests and answers. kafkajs writes and reads the
// header without them, so they are treated as the first byte of the body.

/** As kafkajs passes the bodies of requests on. */
interface Encoded {
  readonly buf: Buffer;
  readonly buffer: Buffer;
}

/** The overhead of a topic and of a partition in a request, at most: all numbers beside texts and records. */
const FRAME_BYTES = 80;

const { Metadata, Produce } = protocol.requests;

interface OwnRequest<Payload, Answer> {
  readonly apiName: keyof typeof apiKeys;
  readonly apiVersion: number;
  /** The first Kafka whose brokers take the version. */
  readonly since: string;
  encode(payload: Payload): Encoded;
  /** Throws for the answer of a failure. */
  decode(bytes: Buffer): Promise<Answer>;
}

function ownRequest<Payload, Answer>({
  apiName,
  apiVersion,
  since,
  encode,
  decode,
}: OwnRequest<Payload, Answer>): Definition<Payload, Answer> {
  return {
    versions: [String(apiVersion)],
    protocol: ({ version }) => {
      if (Number(version) < apiVersion) throw new Error(`the broker is older than Kafka ${since}`);
      return (payload) => ({
        request: { apiKey: apiKeys[apiName], apiName, apiVersion, encode: async () => encode(payload) },
        response: { decode, parse: async (answer) => answer },
      });
    },
  };
}

/** The oldest version that says whether topics may be created. */
const METADATA_VERSION = 4;

/**
 * kafkajs's Metadata, except that without topics it asks for the brokers alone. kafkajs asks for all topics then, and
 * keeps them: with a client for each stage of a partition, memory grew with the square of the partitions.
 */
export const METADATA: Definition<MetadataRequest, unknown> = {
  versions: Metadata.versions.filter((version) => Number(version) >= METADATA_VERSION),
  protocol: (version) => (payload) => {
    const exchange = Metadata.protocol(version)(payload);
    if (payload.topics.length > 0) return exchange;
    return { ...exchange, request: { ...exchange.request, encode: async () => encodedNoTopics() } };
  },
};

/** An empty array of topics, which is none, where kafkajs writes null, which is all; none may be created. */
function encodedNoTopics(): Encoded {
  const writer = new WireWriter(FRAME_BYTES);
  writer.int32(0);
  writer.int8(0);
  return encoded(writer);
}

/** kafkajs's Produce with an encoder of our own: its encoders, several a record, took most of a copying stage's time. */
export const PRODUCE: Definition<ProduceRequest, KafkajsProduceAnswer> = {
  versions: Produce.versions,
  protocol: (version) => (payload) => {
    const exchange = Produce.protocol(version)(payload);
    const encode = async () => encodedProduce(payload);
    return { ...exchange, request: { ...exchange.request, encode } };
  },
};

/** In the layout of versions 3 to 7: the oldest with record batches, and the newest that kafkajs knows. */
export function encodedProduce(request: ProduceRequest): Encoded {
  const { transactionalId, acks, timeout, batches } = request;
  const byTopic = Map.groupBy(batches, ({ topic }) => topic);
  const writer = writerOf(produceRoom(request));
  writer.name(transactionalId);
  writer.int16(acks);
  writer.int32(timeout);
  writer.int32(byTopic.size);
  const timestamp = Date.now();
  for (const [topic, ofTopic] of byTopic) {
    writer.name(topic);
    writer.array(ofTopic, ({ isPublic, partition, messages, firstSequence = 0 }) => {
      writer.int32(partition);
      writeBatch(writer, messages, {
        producerId: BigInt(request.producerId ?? -1),
        producerEpoch: request.producerEpoch ?? 0,
        firstSequence,
        transactional: transactionalId !== undefined,
        timestamp,
        codec: isPublic === true ? 1 : 4,
      });
    });
  }
  const bytes = Buffer.from(writer.buffer.subarray(0, writer.at));
  return { buf: bytes, buffer: bytes };
}

/** Room of the writer that all produce requests share; a larger request gets its own. */
const SHARED_BYTES = 1024 * 1024;

const shared = new WireWriter(SHARED_BYTES);

/** A writer whose bytes must be copied before the next request. Writing to new memory of this size takes longer than the copy. */
function writerOf(bytes: number): WireWriter {
  if (bytes > SHARED_BYTES) return new WireWriter(bytes);
  shared.at = 0;
  return shared;
}

function produceRoom({ transactionalId = '', batches }: ProduceRequest): number {
  let bytes = FRAME_BYTES + Buffer.byteLength(transactionalId);
  for (const { topic, messages } of batches)
    bytes += 2 * FRAME_BYTES + Buffer.byteLength(topic) + roomFor(messages);
  return bytes;
}

/** No fetch session: each request names all its partitions. */
const NO_SESSION = { id: 0, epoch: -1 };
const READ_COMMITTED = 1;
const UNKNOWN = -1;

/**
 * Fetch. Its answer is read without an object for each number and a copy for each header, which takes less than half of
 * kafkajs's processor time, and keeps batches without records.
 */
export const FETCH = ownRequest({
  apiName: 'Fetch',
  apiVersion: 11,
  since: '2.3',
  encode: encodedFetch,
  decode: decodedFetch,
});

function encodedFetch({ waitMs, maxBytes, partitions }: FetchRequest): Encoded {
  const room = partitions.reduce(
    (sum, { topic }) => sum + Buffer.byteLength(topic) + FRAME_BYTES,
    FRAME_BYTES,
  );
  const writer = new WireWriter(room);
  writer.int32(UNKNOWN); // replica
  writer.int32(waitMs);
  writer.int32(1); // least bytes
  writer.int32(maxBytes);
  writer.int8(READ_COMMITTED);
  writer.int32(NO_SESSION.id);
  writer.int32(NO_SESSION.epoch);
  writer.array(partitions, ({ topic, partition, offset, maxBytes: bytes }) => {
    writer.name(topic);
    writer.int32(1);
    writer.int32(partition);
    writer.int32(UNKNOWN); // leader epoch
    writer.int64(BigInt(offset));
    writer.int64(BigInt(UNKNOWN)); // log start offset, of followers
    writer.int32(bytes);
  });
  writer.array([], () => {}); // topics to leave out of a session
  writer.name(''); // rack
  return encoded(writer);
}

export async function decodedFetch(bytes: Buffer): Promise<FetchAnswer> {
  const reader = new WireReader(bytes);
  const clientSideThrottleTime = reader.int32();
  failOn(reader.int16());
  reader.int32(); // session
  const fetched = reader.array(() => {
    const topic = reader.name();
    return reader.array(() => {
      const name = `${topic}/${reader.int32()}`;
      const errorCode = reader.int16();
      reader.int64(); // high watermark
      reader.int64(); // last stable offset
      reader.int64(); // log start offset
      const abortedTransactions = reader.array(() => ({
        producerId: reader.int64(),
        firstOffset: Number(reader.int64()),
      }));
      reader.int32(); // preferred read replica
      return { name, errorCode, abortedTransactions, records: reader.bytes(Math.max(0, reader.int32())) };
    });
  });
  const partitions = fetched.flat().map(async ({ name, records, ...head }) => {
    // Where one cannot be read, the other partitions of the answer are.
    const read = await readBatches(records).then(
      (batches) => ({ batches }),
      (fault: unknown) => ({ batches: [], fault }),
    );
    return [name, { ...head, ...read }] as const;
  });
  return { clientSideThrottleTime, partitions: new Map(await Promise.all(partitions)) };
}

/**
 * TxnOffsetCommit with the id and the generation of the member: the coordinator refuses a member that left the group and
 * one of an older generation. Versions before this one, the newest of kafkajs among them, name neither.
 */
export const TXN_OFFSET_COMMIT = ownRequest({
  apiName: 'TxnOffsetCommit',
  apiVersion: 3,
  since: '2.5',
  encode: encodedTxnOffsetCommit,
  decode: decodedTxnOffsetCommit,
});

function encodedTxnOffsetCommit({ producer, member, position }: TxnOffsetCommitRequest): Encoded {
  const { topic, partition, offset, metadata } = position;
  const texts = [producer.transactionalId, member.groupId, member.memberId, topic, metadata];
  const writer = new WireWriter(texts.reduce((sum, text) => sum + Buffer.byteLength(text), 3 * FRAME_BYTES));
  writer.noTags(); // of the header
  writer.compactText(producer.transactionalId);
  writer.compactText(member.groupId);
  writer.int64(BigInt(producer.producerId));
  writer.int16(producer.producerEpoch);
  writer.int32(member.generationId);
  writer.compactText(member.memberId);
  writer.compactText(null); // id of a static member
  writer.compactArray([topic], () => {
    writer.compactText(topic);
    writer.compactArray([partition], () => {
      writer.int32(partition);
      writer.int64(BigInt(offset));
      writer.int32(UNKNOWN); // leader epoch
      writer.compactText(metadata);
      writer.noTags();
    });
    writer.noTags();
  });
  writer.noTags();
  return encoded(writer);
}

async function decodedTxnOffsetCommit(bytes: Buffer): Promise<{ readonly clientSideThrottleTime: number }> {
  const reader = new WireReader(bytes);
  reader.skipTags(); // of the header
  const clientSideThrottleTime = reader.int32();
  reader.compactArray(() => {
    reader.compactText(); // topic
    reader.compactArray(() => {
      reader.int32(); // partition
      failOn(reader.int16());
      reader.skipTags();
    });
    reader.skipTags();
  });
  return { clientSideThrottleTime };
}

/** DescribeLogDirs, which kafkajs does not have: KIP-827, the oldest version with the size and free space of a directory. */
export const LOG_DIRECTORIES = ownRequest({
  apiName: 'DescribeLogDirs',
  apiVersion: 4,
  since: '3.3',
  encode: encodedLogDirectories,
  decode: decodedLogDirectories,
});

function encodedLogDirectories(topics: readonly PartitionsOfTopic[]): Encoded {
  const room = topics.map(({ topic, partitions }) => FRAME_BYTES + Buffer.byteLength(topic) + 4 * partitions);
  const writer = new WireWriter(room.reduce((sum, bytes) => sum + bytes, FRAME_BYTES));
  writer.noTags(); // of the header
  writer.compactArray(topics, ({ topic, partitions }) => {
    writer.compactText(topic);
    writer.compactArray([...Array(partitions).keys()], (partition) => writer.int32(partition));
    writer.noTags();
  });
  writer.noTags();
  return encoded(writer);
}

/** Directories that failed, or that hold none of the partitions that the request names, are left out. */
async function decodedLogDirectories(bytes: Buffer): Promise<readonly LogDirectory[]> {
  const reader = new WireReader(bytes);
  reader.skipTags(); // of the header
  reader.int32(); // throttle time
  failOn(reader.int16());
  const directories = reader.compactArray(() => {
    const errorCode = reader.int16();
    reader.compactText(); // path
    const topics = reader.compactArray(() => {
      reader.compactText(); // topic
      reader.compactArray(() => {
        reader.int32(); // partition
        reader.int64(); // size
        reader.int64(); // lag of the offset
        reader.bytes(1); // whether it is being moved here
        reader.skipTags();
      });
      reader.skipTags();
    });
    const [size, free] = [Number(reader.int64()), Number(reader.int64())];
    reader.skipTags();
    return { errorCode, size, free, isOurs: topics.length > 0 };
  });
  return directories.flatMap(({ errorCode, size, free, isOurs }) =>
    errorCode === 0 && isOurs ? [{ size, free }] : [],
  );
}

function encoded(writer: WireWriter): Encoded {
  const buf = writer.buffer.subarray(0, writer.at);
  return { buf, buffer: buf };
}
