import type { Socket } from 'node:net';
import { type Inspect, MessageBuffer } from '../egress/response-inspection.ts';
import { AnswerRefused, TooMuchAnswered } from '../failures.ts';

/** An answer of a broker: what it says of a topic with 4,000 partitions is shorter. */
const MAX_ANSWER_BYTES = 256 * 1_024;
/** Each costs the driver two connections that it prepares. */
const MAX_BROKERS = 1_000;
/** An answer to a step of SASL that older brokers give without a header. */
const MAX_BARE_BYTES = 8 * 1_024;

/** Bytes of that number; a text or bytes with their length before them; or a list of the same. */
type Field = number | 'string' | 'bytes' | { readonly list: Layout; readonly max?: number };
type Layout = readonly Field[];

const INT8 = 1;
const INT16 = 2;
const INT32 = 4;
const INT64 = 8;
const listOf = (...list: Layout): Field => ({ list });
const brokers = (...list: Layout): Field => ({ list, max: MAX_BROKERS });

const BROKER: Layout = [INT32, 'string', INT32];
const PARTITION: Layout = [INT16, INT32, INT32, listOf(INT32), listOf(INT32)];
const TOPIC: Layout = [INT16, 'string', INT8];
const METADATA_2: Layout = [
  brokers(...BROKER, 'string'),
  'string',
  INT32,
  listOf(...TOPIC, listOf(...PARTITION)),
];
const METADATA_5: Layout = [
  INT32,
  brokers(...BROKER, 'string'),
  'string',
  INT32,
  listOf(...TOPIC, listOf(...PARTITION, listOf(INT32))),
];
const WRITTEN_2: Layout = [listOf('string', listOf(INT32, INT16, INT64, INT64)), INT32];
const WRITTEN_5: Layout = [listOf('string', listOf(INT32, INT16, INT64, INT64, INT64)), INT32];
const VERSIONS: Layout = [INT16, listOf(INT16, INT16, INT16)];
const MECHANISMS: Layout = [INT16, listOf('string')];

/** The answers that a producer and its connection test meet with, by API and version, as far as kafkajs knows them. */
const LAYOUTS: ReadonlyMap<number, readonly Layout[]> = new Map<number, readonly Layout[]>([
  [
    0, // Produce
    [
      [listOf('string', listOf(INT32, INT16, INT64))],
      [listOf('string', listOf(INT32, INT16, INT64)), INT32],
      WRITTEN_2,
      WRITTEN_2,
      WRITTEN_2,
      WRITTEN_5,
      WRITTEN_5,
      WRITTEN_5,
    ],
  ],
  [
    3, // Metadata
    [
      [brokers(...BROKER), listOf(INT16, 'string', listOf(...PARTITION))],
      [brokers(...BROKER, 'string'), INT32, listOf(...TOPIC, listOf(...PARTITION))],
      METADATA_2,
      [INT32, ...METADATA_2],
      [INT32, ...METADATA_2],
      METADATA_5,
      METADATA_5,
    ],
  ],
  [17, [MECHANISMS, MECHANISMS]], // SaslHandshake
  [18, [VERSIONS, VERSIONS, VERSIONS]], // ApiVersions
  [
    36, // SaslAuthenticate
    [
      [INT16, 'string', 'bytes'],
      [INT16, 'string', 'bytes', INT64],
    ],
  ],
]);
/** A broker that does not know a version of a request says so in a form of its own. */
const UNSUPPORTED_VERSION = 35;
const MAY_BE_UNSUPPORTED = new Set([17, 18]);

interface Asked {
  readonly api: number;
  readonly layout: Layout;
}

/**
 * Hands kafkajs the answers of a broker one by one, each whole, to a request that it made, and with no more in its lists
 * than the answer holds. kafkajs waits for any length, makes room for any list that an answer announces, and prepares
 * connections to every broker that is named.
 */
export function kafkaAnswers(socket: Socket): Inspect {
  const came = new MessageBuffer();
  const asked = new Map<number, Asked>();
  let isBare = false;
  const write = socket.write.bind(socket);
  const note = (request: Buffer) => {
    const [api, version] = request.length < 12 ? [] : [request.readInt16BE(4), request.readInt16BE(6)];
    const layout = api === undefined ? undefined : LAYOUTS.get(api)?.[version ?? -1];
    isBare = layout === undefined || api === undefined;
    if (layout !== undefined && api !== undefined) asked.set(request.readInt32BE(8), { api, layout });
  };
  const writeNoted = (data: unknown, ...rest: unknown[]) => {
    if (Buffer.isBuffer(data)) note(data);
    return Reflect.apply(write, socket, [data, ...rest]);
  };
  Object.defineProperty(socket, 'write', { value: writeNoted, writable: true, configurable: true });

  const check = (answer: Buffer) => {
    if (isBare) {
      isBare = false;
      if (answer.length > MAX_BARE_BYTES) throw new TooMuchAnswered('the answer is too long');
      return;
    }
    const correlation = answer.length < 8 ? undefined : answer.readInt32BE(4);
    const request = correlation === undefined ? undefined : asked.get(correlation);
    if (correlation === undefined || request === undefined)
      throw new AnswerRefused('the broker answers what it was not asked');
    asked.delete(correlation);
    const isUnsupported =
      MAY_BE_UNSUPPORTED.has(request.api) &&
      answer.length >= 10 &&
      answer.readInt16BE(8) === UNSUPPORTED_VERSION;
    if (!isUnsupported) endOf(answer, 8, request.layout);
  };

  return function* inspect(chunk) {
    came.add(chunk);
    while (true) {
      const length = came.peek(4)?.readInt32BE(0);
      if (length === undefined) return;
      if (length > MAX_ANSWER_BYTES) throw new TooMuchAnswered('the answer is too long');
      if (length < 0) throw new AnswerRefused('the answer has no length');
      const answer = came.take(4 + length);
      if (answer === undefined) return;
      check(answer);
      yield answer;
    }
  };
}

/** Where the fields end that begin at `at`; throws where the answer ends before they do. */
function endOf(answer: Buffer, at: number, layout: Layout): number {
  let end = at;
  for (const field of layout) {
    if (typeof field === 'number') end += field;
    else if (field === 'string') end += 2 + lengthAt(answer, end, 2);
    else if (field === 'bytes') end += 4 + lengthAt(answer, end, 4);
    else end = endOfList(answer, end, field);
    if (end > answer.length) throw new AnswerRefused('the answer is shorter than it says');
  }
  return end;
}

function endOfList(
  answer: Buffer,
  at: number,
  { list, max = Infinity }: Exclude<Field, number | string>,
): number {
  const count = lengthAt(answer, at, 4);
  if (count > max) throw new TooMuchAnswered('the cluster has too many brokers');
  let end = at + 4;
  // No more are made room for than can be there: each has a byte at least.
  if (count > answer.length - end) throw new AnswerRefused('the answer is shorter than it says');
  for (let n = 0; n < count; n++) end = endOf(answer, end, list);
  return end;
}

/** -1 stands for none. */
function lengthAt(answer: Buffer, at: number, bytes: 2 | 4): number {
  if (at + bytes > answer.length) throw new AnswerRefused('the answer is shorter than it says');
  const length = answer.readIntBE(at, bytes);
  if (length < -1) throw new AnswerRefused('the answer says a length below nothing');
  return Math.max(0, length);
}
