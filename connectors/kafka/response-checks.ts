import type { Socket } from 'node:net';
import { MessageBuffer, type ResponseFilter } from '../egress/response-inspection.ts';
import { ResponseRefused, ResponseTooLarge } from '../failures.ts';

/** Bytes of a response; the metadata of a topic with 4,000 partitions are shorter. */
const MAX_RESPONSE_BYTES = 256 * 1_024;
/** The driver prepares two connections for each broker. */
const MAX_BROKERS = 1_000;
/** Bytes of a SASL response without a header, as older brokers send it. */
const MAX_BARE_BYTES = 8 * 1_024;

/** A number of bytes; a text or bytes with a length prefix; or a list. */
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

/** The responses that a producer and its connection test receive, by API and version as kafkajs knows them. */
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
/** The error of an unsupported version has a layout of its own. */
const UNSUPPORTED_VERSION = 35;
const MAY_BE_UNSUPPORTED = new Set([17, 18]);

const PRODUCE = 0;

interface Asked {
  readonly api: number;
  readonly version: number;
  readonly layout: Layout;
}

/**
 * Passes complete responses to kafkajs one by one: each belongs to a request, and its lists fit into it. kafkajs waits for
 * any announced length, allocates any announced list, and prepares connections to every announced broker. Calls
 * `onThrottled` with the throttle time of a response to a produce request, ms, unless it is 0.
 */
export function checkResponses(socket: Socket, onThrottled: (ms: number) => void = () => {}): ResponseFilter {
  const came = new MessageBuffer();
  const asked = new Map<number, Asked>();
  let isBare = false;
  const write = socket.write.bind(socket);
  const note = (request: Buffer) => {
    const [api, version] = request.length < 12 ? [] : [request.readInt16BE(4), request.readInt16BE(6)];
    const layout = api === undefined ? undefined : LAYOUTS.get(api)?.[version ?? -1];
    isBare = layout === undefined || api === undefined;
    if (layout !== undefined && api !== undefined)
      asked.set(request.readInt32BE(8), { api, version: version ?? 0, layout });
  };
  const writeNoted = (data: unknown, ...rest: unknown[]) => {
    if (Buffer.isBuffer(data)) note(data);
    return Reflect.apply(write, socket, [data, ...rest]);
  };
  Object.defineProperty(socket, 'write', { value: writeNoted, writable: true, configurable: true });

  const check = (response: Buffer) => {
    if (isBare) {
      isBare = false;
      if (response.length > MAX_BARE_BYTES) throw new ResponseTooLarge('the answer is too long');
      return;
    }
    const correlation = response.length < 8 ? undefined : response.readInt32BE(4);
    const request = correlation === undefined ? undefined : asked.get(correlation);
    if (correlation === undefined || request === undefined)
      throw new ResponseRefused('the broker sent a response that answers no pending request');
    asked.delete(correlation);
    const isUnsupported =
      MAY_BE_UNSUPPORTED.has(request.api) &&
      response.length >= 10 &&
      response.readInt16BE(8) === UNSUPPORTED_VERSION;
    const end = isUnsupported ? 0 : endOf(response, 8, request.layout);
    // The last field, since version 1.
    const throttleMs = request.api === PRODUCE && request.version > 0 ? response.readInt32BE(end - 4) : 0;
    if (throttleMs > 0) onThrottled(throttleMs);
  };

  return function* inspect(chunk) {
    came.add(chunk);
    while (true) {
      const length = came.peek(4)?.readInt32BE(0);
      if (length === undefined) return;
      if (length > MAX_RESPONSE_BYTES) throw new ResponseTooLarge('the answer is too long');
      if (length < 0) throw new ResponseRefused('the response has a negative length');
      const response = came.take(4 + length);
      if (response === undefined) return;
      check(response);
      yield response;
    }
  };
}

/** The end of the fields that begin at `at`; throws where they exceed the response. */
function endOf(response: Buffer, at: number, layout: Layout): number {
  let end = at;
  for (const field of layout) {
    if (typeof field === 'number') end += field;
    else if (field === 'string') end += 2 + lengthAt(response, end, 2);
    else if (field === 'bytes') end += 4 + lengthAt(response, end, 4);
    else end = endOfList(response, end, field);
    if (end > response.length) throw new ResponseRefused('the response is shorter than its stated length');
  }
  return end;
}

function endOfList(
  response: Buffer,
  at: number,
  { list, max = Infinity }: Exclude<Field, number | string>,
): number {
  const count = lengthAt(response, at, 4);
  if (count > max) throw new ResponseTooLarge('the cluster has too many brokers');
  let end = at + 4;
  // Each element has at least one byte.
  if (count > response.length - end)
    throw new ResponseRefused('the response is shorter than its stated length');
  for (let n = 0; n < count; n++) end = endOf(response, end, list);
  return end;
}

/** A length at an offset; -1 (null) counts as 0. */
function lengthAt(response: Buffer, at: number, bytes: 2 | 4): number {
  if (at + bytes > response.length)
    throw new ResponseRefused('the response is shorter than its stated length');
  const length = response.readIntBE(at, bytes);
  if (length < -1) throw new ResponseRefused('the response has a negative length');
  return Math.max(0, length);
}
