import apiKeys from 'kafkajs/src/protocol/requests/apiKeys.js';
import protocol from 'kafkajs/src/protocol/requests/index.js';
import {
  isAbortMarker,
  type LargeCodec,
  readBatches,
  roomFor,
  WireReader,
  WireWriter,
  writeBatch,
} from '../record-batch.ts';
import {
  type Definition,
  type FetchAnswer,
  type FetchedPartition,
  type FetchRequest,
  failOn,
  type KafkajsFetchAnswer,
  type KafkajsRecord,
  type LogDirectory,
  type MetadataRequest,
  type OffsetsOfTopic,
  type PartitionsOfTopic,
  type ProduceAnswer,
  type ProduceRequest,
  type RecordBatch,
  type RecordRead,
  type TxnOffsetCommitRequest,
} from './protocol.ts';

// Requests in encodings and versions of our own. kafkajs sends them and matches their answers; where a broker knows only
// older versions, kafkajs's own are used.
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

const { Fetch, Metadata, Produce, TxnOffsetCommit } = protocol.requests;

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
export const PRODUCE: Definition<ProduceRequest, ProduceAnswer> = {
  versions: Produce.versions,
  protocol: (version) => (payload) => {
    const exchange = Produce.protocol(version)(payload);
    const encode = async () => encodedProduce(payload, Number(version));
    return { ...exchange, request: { ...exchange.request, encode } };
  },
};

/** The first version in which a broker takes batches compressed with zstd. */
const ZSTD_VERSION = 7;

/** In the layout of versions 3 to 7: the oldest with record batches, and the newest that kafkajs knows. */
export function encodedProduce(request: ProduceRequest, version = ZSTD_VERSION): Encoded {
  const { transactionalId, acks, timeout, topicData, compression } = request;
  const writer = writerOf(produceRoom(request));
  writeName(writer, transactionalId);
  writer.int16(acks);
  writer.int32(timeout);
  writer.int32(topicData.length);
  const timestamp = Date.now();
  for (const { topic, isPublic, partitions } of topicData) {
    writeName(writer, topic);
    writer.int32(partitions.length);
    const codec: LargeCodec = isPublic === true || version < ZSTD_VERSION ? 1 : 4;
    for (const { partition, messages, firstSequence = 0 } of partitions) {
      writer.int32(partition);
      writeBatch(writer, messages, {
        producerId: BigInt(request.producerId ?? -1),
        producerEpoch: request.producerEpoch ?? 0,
        firstSequence,
        transactional: transactionalId !== undefined,
        timestamp,
        ...(compression === 'large' ? { large: codec } : { compression }),
      });
    }
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

function produceRoom({ transactionalId = '', topicData }: ProduceRequest): number {
  let bytes = FRAME_BYTES + Buffer.byteLength(transactionalId);
  for (const { topic, partitions } of topicData) {
    bytes += FRAME_BYTES + Buffer.byteLength(topic);
    for (const { messages } of partitions) bytes += FRAME_BYTES + roomFor(messages);
  }
  return bytes;
}

/** NULLABLE_STRING. */
function writeName(writer: WireWriter, name: string | undefined): void {
  if (name === undefined) {
    writer.int16(-1);
    return;
  }
  const bytes = Buffer.from(name);
  writer.int16(bytes.length);
  writer.bytes(bytes);
}

const FETCH_VERSION = 12;

/** No fetch session: each request names all its partitions. */
const NO_SESSION = { id: 0, epoch: -1 };
const UNKNOWN = -1;

/**
 * Fetch, the newest version that names topics and not their ids. Its answer is read without an object for each number and
 * a copy for each header, which takes less than half of kafkajs's processor time, and keeps batches without records.
 */
export const FETCH: Definition<FetchRequest, FetchAnswer> = {
  versions: [...Fetch.versions, String(FETCH_VERSION)],
  protocol: ({ version }) => {
    if (Number(version) < FETCH_VERSION) {
      return (payload) => {
        const { request, response } = Fetch.protocol({ version })(payload);
        const decode = async (bytes: Buffer) => fromKafkajs(await response.decode(bytes));
        return { request, response: { decode, parse: async (answer) => answer } };
      };
    }
    return (payload) => ({
      request: {
        apiKey: 1,
        apiName: 'Fetch',
        apiVersion: FETCH_VERSION,
        encode: async () => encodedFetch(payload),
      },
      response: { decode: decodedFetch, parse: async (answer) => answer },
    });
  },
};

export function encodedFetch(request: FetchRequest): Encoded {
  const { replicaId, maxWaitTime, minBytes, maxBytes, isolationLevel, topics, rackId } = request;
  const writer = new WireWriter(roomOfTopics(topics) + Buffer.byteLength(rackId));
  writer.noTags(); // of the header
  writer.int32(replicaId);
  writer.int32(maxWaitTime);
  writer.int32(minBytes);
  writer.int32(maxBytes);
  writer.int8(isolationLevel);
  writer.int32(NO_SESSION.id);
  writer.int32(NO_SESSION.epoch);
  writer.compactArray(topics, ({ topic, partitions }) => {
    writer.compactText(topic);
    writer.compactArray(partitions, ({ partition, fetchOffset, maxBytes: bytes }) => {
      writer.int32(partition);
      writer.int32(UNKNOWN); // leader epoch
      writer.int64(BigInt(fetchOffset));
      writer.int32(UNKNOWN); // last fetched epoch
      writer.int64(BigInt(UNKNOWN)); // log start offset, of followers
      writer.int32(bytes);
      writer.noTags();
    });
    writer.noTags();
  });
  writer.compactArray([], () => {}); // topics to leave out of a session
  writer.compactText(rackId);
  writer.noTags();
  return encoded(writer);
}

export async function decodedFetch(bytes: Buffer): Promise<FetchAnswer> {
  const reader = new WireReader(bytes);
  reader.skipTags(); // of the header
  const clientSideThrottleTime = reader.int32();
  failOn(reader.int16());
  reader.int32(); // session
  const responses = reader.compactArray(() => {
    const topicName = reader.compactText();
    const partitions = reader.compactArray(() => {
      const head = {
        partition: reader.int32(),
        errorCode: reader.int16(),
        highWatermark: Number(reader.int64()),
      };
      reader.int64(); // last stable offset
      reader.int64(); // log start offset
      const abortedTransactions = reader.compactArray(() => {
        const aborted = { producerId: reader.int64(), firstOffset: Number(reader.int64()) };
        reader.skipTags();
        return aborted;
      });
      reader.int32(); // preferred read replica
      const records = reader.compactBytes();
      reader.skipTags();
      return { head, abortedTransactions, records };
    });
    reader.skipTags();
    return { topicName, partitions };
  });
  return {
    clientSideThrottleTime,
    responses: await Promise.all(
      responses.map(async ({ topicName, partitions }) => ({
        topicName,
        partitions: await Promise.all(
          partitions.map(async ({ head, abortedTransactions, records }): Promise<FetchedPartition> => {
            try {
              return { ...head, abortedTransactions, batches: await readBatches(records) };
            } catch (fault) {
              // The other partitions of the answer are read.
              return { ...head, abortedTransactions, batches: [], fault };
            }
          }),
        ),
      })),
    ),
  };
}

/** kafkajs lists records, each with its batch; batches without records are not there. */
function fromKafkajs({ responses, ...answer }: KafkajsFetchAnswer): FetchAnswer {
  return {
    ...answer,
    responses: responses.map(({ topicName, partitions }) => ({
      topicName,
      partitions: partitions.map(
        ({ partition, errorCode, highWatermark, abortedTransactions, messages }) => ({
          partition,
          errorCode,
          highWatermark: Number(highWatermark),
          abortedTransactions: (abortedTransactions ?? []).map(({ producerId, firstOffset }) => ({
            producerId: BigInt(producerId),
            firstOffset: Number(firstOffset),
          })),
          batches: [...Map.groupBy(messages, ({ batchContext }) => batchContext).values()].flatMap(batchOf),
        }),
      ),
    })),
  };
}

function batchOf(messages: readonly KafkajsRecord[]): RecordBatch[] {
  const [first] = messages;
  if (first === undefined) return [];
  const { firstOffset, lastOffsetDelta, producerId, inTransaction, isControlBatch } = first.batchContext;
  return [
    {
      lastOffset: Number(firstOffset) + lastOffsetDelta,
      producerId: BigInt(producerId),
      isTransactional: inTransaction,
      isControl: isControlBatch,
      isAbort: isControlBatch && isAbortMarker(first.key),
      records: isControlBatch ? [] : messages.map(recordOf),
    },
  ];
}

function recordOf({ offset, timestamp, key, value, headers }: KafkajsRecord): RecordRead {
  return {
    offset: Number(offset),
    timestamp: Number(timestamp),
    key: key?.toString('utf8') ?? null,
    value,
    headers: lastHeaders(headers),
  };
}

/** The headers as text; the last of several headers with one name counts. */
function lastHeaders(headers: KafkajsRecord['headers']): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const last = Array.isArray(value) ? value.at(-1) : value;
    if (Buffer.isBuffer(last)) texts[name] = last.toString('utf8');
  }
  return texts;
}

/** The first version that names the member. */
export const FENCING_COMMIT_VERSION = 3;

/**
 * TxnOffsetCommit with the id and the generation of the member: the coordinator refuses a member that left the group and
 * one of an older generation. kafkajs's version 1 names neither, and brokers accept both from it.
 */
export const TXN_OFFSET_COMMIT: Definition<TxnOffsetCommitRequest, unknown> = {
  versions: [...TxnOffsetCommit.versions, '2', String(FENCING_COMMIT_VERSION)],
  protocol: ({ version }) => {
    // kafkajs does not know version 2; a broker that does knows version 1 as well.
    const theirs = TxnOffsetCommit.protocol({ version: Math.min(Number(version), 1) });
    return ({ producer, member, topics }) => {
      const { groupId } = member;
      const exchange = theirs({ ...producer, groupId, topics });
      if (Number(version) < FENCING_COMMIT_VERSION) return exchange;
      return {
        request: {
          ...exchange.request,
          apiVersion: FENCING_COMMIT_VERSION,
          encode: async () => encodedTxnOffsetCommit({ producer, member, topics }),
        },
        response: { ...exchange.response, decode: decodedTxnOffsetCommit },
      };
    };
  },
};

export function encodedTxnOffsetCommit({ producer, member, topics }: TxnOffsetCommitRequest): Encoded {
  const texts = [producer.transactionalId, member.groupId, member.memberId, ...metadataOf(topics)];
  const room = texts.reduce((sum, text) => sum + Buffer.byteLength(text), roomOfTopics(topics));
  const writer = new WireWriter(room);
  writer.noTags(); // of the header
  writer.compactText(producer.transactionalId);
  writer.compactText(member.groupId);
  writer.int64(BigInt(producer.producerId));
  writer.int16(producer.producerEpoch);
  writer.int32(member.generationId);
  writer.compactText(member.memberId);
  writer.compactText(null); // id of a static member
  writer.compactArray(topics, ({ topic, partitions }) => {
    writer.compactText(topic);
    writer.compactArray(partitions, ({ partition, offset, metadata }) => {
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

/** As kafkajs's decoder answers, which its check for errors reads. */
async function decodedTxnOffsetCommit(bytes: Buffer): Promise<object> {
  const reader = new WireReader(bytes);
  reader.skipTags(); // of the header
  const clientSideThrottleTime = reader.int32();
  const topics = reader.compactArray(() => {
    const topic = reader.compactText();
    const partitions = reader.compactArray(() => {
      const answer = { partition: reader.int32(), errorCode: reader.int16() };
      reader.skipTags();
      return answer;
    });
    reader.skipTags();
    return { topic, partitions };
  });
  return { throttleTime: 0, clientSideThrottleTime, topics };
}

/** KIP-827: the oldest version that has the size and the free space of a directory. */
const LOG_DIRECTORIES_VERSION = 4;

/** DescribeLogDirs, which kafkajs does not have. */
export const LOG_DIRECTORIES: Definition<readonly PartitionsOfTopic[], readonly LogDirectory[]> = {
  versions: [String(LOG_DIRECTORIES_VERSION)],
  protocol: ({ version }) => {
    if (Number(version) < LOG_DIRECTORIES_VERSION)
      throw new Error('the broker is older than Kafka 3.3 and does not tell the free space of its disks');
    return (topics) => ({
      request: {
        apiKey: apiKeys.DescribeLogDirs,
        apiName: 'DescribeLogDirs',
        apiVersion: LOG_DIRECTORIES_VERSION,
        encode: async () => encodedLogDirectories(topics),
      },
      response: { decode: decodedLogDirectories, parse: async (directories) => directories },
    });
  },
};

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
export async function decodedLogDirectories(bytes: Buffer): Promise<readonly LogDirectory[]> {
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

function metadataOf(topics: readonly OffsetsOfTopic[]): readonly string[] {
  return topics.flatMap(({ partitions }) => partitions.map(({ metadata }) => metadata ?? ''));
}

function roomOfTopics(
  topics: readonly { readonly topic: string; readonly partitions: readonly unknown[] }[],
): number {
  return topics.reduce(
    (sum, { topic, partitions }) => sum + Buffer.byteLength(topic) + FRAME_BYTES * (1 + partitions.length),
    FRAME_BYTES,
  );
}

function encoded(writer: WireWriter): Encoded {
  const buf = writer.buffer.subarray(0, writer.at);
  return { buf, buffer: buf };
}
