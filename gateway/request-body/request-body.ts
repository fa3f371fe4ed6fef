import { isUtf8 } from 'node:buffer';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { getHeapStatistics } from 'node:v8';
import {
  brotliDecompress,
  constants,
  gunzip,
  inflateRaw,
  inflate as inflateZlib,
  zstdDecompress,
} from 'node:zlib';
import { FairBudget, hasCode, type Permit } from '@tributary/core';
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { GatewayDependencies } from '../dependencies.ts';
import { bodyTooLarge, invalidRequest, unavailable, unsupportedMediaType } from '../errors/api-error.ts';
import { isAuthenticated, ownersOf } from '../limits/memory-budgets.ts';
import { disconnectSignal, FairSemaphore } from '../limits/turns.ts';
import { type JsonForm, parseJson, type TolerantBody } from './parse-json.ts';

/** Bytes of a body at most, as sent and inflated. */
export const MAX_BODY_BYTES = 4 * 1024 * 1024;

/**
 * The limit for unauthenticated callers: 4 MiB of the most expensive JSON take half a second to parse. SDKs with their key
 * in the body send less in one request; pages that close send at most 64 KiB.
 */
const MAX_UNAUTHENTICATED_BODY_BYTES = 512 * 1024;

/** The parts of the heap (1/16, 1/64) for all bodies of a kind of caller. Parsed, a body takes several times its size. */
const BUDGET_PART = 16;
const UNAUTHENTICATED_BUDGET_PART = 64;
/** Each budget holds at least so many bodies of the maximal size. */
const MIN_BODIES = 4;
/** The part of the remaining budget that one organization, account or address may take. */
const LARGEST_SHARE = 3 / 4;

/** Bodies up to this size are not counted: the headers of any request may be as large. */
const UNCOUNTED_BYTES = 16 * 1024;

/**
 * Bodies that are inflated at a time; the next one waits until the one before it is inflated, so that inflated bodies do
 * not accumulate. Unauthenticated callers have a semaphore of their own and never delay others.
 */
const INFLATION = {
  concurrency: 4,
  maxWaiting: Number.POSITIVE_INFINITY,
  maxWaitingPerOwner: Number.POSITIVE_INFINITY,
  retryAfterSeconds: 1,
};
const UNAUTHENTICATED_INFLATION = { ...INFLATION, concurrency: 1 };

type Done = (error: Error | null, value?: unknown) => void;

type BodyDependencies = Pick<GatewayDependencies, 'metrics' | 'memory'>;

/** The budget of a body above `UNCOUNTED_BYTES`, reserved until the request ends. */
interface BodyMemory {
  readonly permit: Permit;
  /** Of a compressed body. */
  readonly disconnected: AbortSignal | undefined;
  /** Set while the body is being read. */
  reading: BodyReading | undefined;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Reads a body as JSON, whatever its content type, but CSV as text. */
    parseBody(request: FastifyRequest, payload: Readable, done: Done): void;
  }
  interface FastifyContextConfig {
    /** How faults of the body are treated. Default: `strict`. `raw`: the route gets the bytes, inflated and not parsed. */
    readonly body?: JsonForm | 'raw';
    /** From this depth of the body, or of an item of it, numbers keep their digits. Default: 0, everywhere. */
    readonly exactFrom?: number;
  }
  interface FastifyRequest {
    /** Undefined for no body and for a small one. */
    bodyMemory: BodyMemory | undefined;
    /** Size of the body as it was parsed, inflated. */
    bodyBytes: number;
    /** The faults of a body that `JSON.parse` would silently change; undefined for nearly all bodies. */
    tolerantBody: TolerantBody | undefined;
    /** Authenticates by the body's text, before it is parsed; rejects with 401 or 429. Set for SDKs without a header. */
    authenticateByBody: ((text: Buffer) => Promise<void>) | undefined;
  }
}

/**
 * Reads and parses bodies: JSON, plain or compressed; CSV stays text. An empty body counts as no body.
 *
 * All bodies together have a memory budget, divided fairly between callers. 503 for a caller whose share is used up; and
 * when a caller below its share needs memory, the oldest bodies of others that are still being received end with 503.
 */
export const bodyPlugin = fastifyPlugin<BodyDependencies>(async (app, { metrics, memory = {} }) => {
  const authenticated = {
    budget: budgetOf(BUDGET_PART, memory.bodies),
    inflation: new FairSemaphore(INFLATION),
  };
  const unauthenticated = {
    budget: budgetOf(UNAUTHENTICATED_BUDGET_PART, memory.unauthenticatedBodies),
    inflation: new FairSemaphore(UNAUTHENTICATED_INFLATION),
  };
  const limitsOf = (request: FastifyRequest) => (isAuthenticated(request) ? authenticated : unauthenticated);

  /** Opens the budget of a body that may grow beyond `UNCOUNTED_BYTES`, until the response is sent. */
  function openBodyMemory(request: FastifyRequest, reply: FastifyReply): Error | undefined {
    const { 'content-length': length, 'transfer-encoding': chunked } = request.headers;
    if (length === undefined && chunked === undefined) return undefined;
    if (Number(length) <= UNCOUNTED_BYTES && !isCompressed(request)) return undefined;
    if (Number(length) > maxBytesOf(request)) return bodyTooLarge();
    const permit = limitsOf(request).budget.open(ownersOf(request), {
      mayEnd: () => request.bodyMemory?.reading !== undefined,
      onEnded: () => request.bodyMemory?.reading?.stop(outOfMemory('ended')),
    });
    const disconnected = isCompressed(request) ? disconnectSignal(reply) : undefined;
    request.bodyMemory = { permit, disconnected, reading: undefined };
    reply.raw.once('close', permit.release);
    return undefined;
  }

  function outOfMemory(reason: 'share' | 'ended'): Error {
    metrics.count('tributary_http_bodies_refused_total', { reason });
    return unavailable({}, new Error(`the memory for bodies is used up (${reason})`));
  }

  function reserve({ bodyMemory }: FastifyRequest, bytes: number): Error | undefined {
    if (bodyMemory === undefined || bytes <= UNCOUNTED_BYTES || bodyMemory.permit.resize(bytes))
      return undefined;
    return outOfMemory('share');
  }

  async function inflated(request: FastifyRequest, body: Buffer): Promise<Buffer> {
    const disconnected = request.bodyMemory?.disconnected;
    if (disconnected === undefined || body.length === 0) return body;
    // The organization, where that is known.
    const owner = ownersOf(request)
      .slice(0, isAuthenticated(request) ? 1 : 2)
      .join(' ');
    const text = await limitsOf(request).inflation.run(owner, disconnected, () =>
      inflate(body, encodingsOf(request), maxBytesOf(request)),
    );
    const refusal = reserve(request, text.length);
    if (refusal !== undefined) throw refusal;
    return text;
  }

  async function prepare(request: FastifyRequest, body: Buffer): Promise<Buffer> {
    const text = await inflated(request, body);
    await request.authenticateByBody?.(text);
    return text;
  }

  function parse(request: FastifyRequest, body: Buffer, done: Done): void {
    const parseText = (text: Buffer) => {
      request.bodyBytes = text.length;
      parseInto(request, text, done);
    };
    // Most events take this path, which awaits no promise.
    if (request.authenticateByBody === undefined && !isCompressed(request)) parseText(body);
    else prepare(request, body).then(parseText, done);
  }

  app.decorateRequest('bodyMemory');
  app.decorateRequest('bodyBytes', 0);
  app.decorateRequest('tolerantBody');
  app.decorateRequest('authenticateByBody');
  app.decorate('parseBody', (request, payload, done) => {
    const { bodyMemory } = request;
    const length = request.headers['content-length'];
    const reading = readBody(
      payload,
      {
        limit: maxBytesOf(request),
        expected: length === undefined ? undefined : Number(length),
        reserve: (bytes) => reserve(request, bytes),
      },
      (error, body) => {
        if (bodyMemory !== undefined) bodyMemory.reading = undefined;
        if (body === undefined) {
          bodyMemory?.permit.release();
          return done(error);
        }
        // The reserved buffer may be larger than the body.
        if (body.length > UNCOUNTED_BYTES) bodyMemory?.permit.resize(body.length);
        parse(request, body, done);
      },
    );
    if (bodyMemory !== undefined) bodyMemory.reading = reading;
  });
  // The last hook before the body is read: one of `preParsing` costs each request two closures more.
  const admitBody: onRequestHookHandler = (request, reply, done) => {
    done(isSupported(encodingsOf(request)) ? openBodyMemory(request, reply) : unsupportedMediaType());
  };
  app.addHook('onRoute', (route) => {
    route.onRequest = [...[route.onRequest ?? []].flat(), admitBody];
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', app.parseBody);
  app.addContentTypeParser(MERGE_PATCH_TYPE, (request, payload, done) => {
    if (request.method !== 'PATCH') return done(unsupportedMediaType());
    return app.parseBody(request, payload, done);
  });
});

function budgetOf(partOfHeap: number, bytes?: number): FairBudget {
  const heapBytes = getHeapStatistics().heap_size_limit;
  const capacity = bytes ?? Math.max(heapBytes / partOfHeap, MIN_BODIES * MAX_BODY_BYTES);
  return new FairBudget({ capacity, largestShare: LARGEST_SHARE });
}

function maxBytesOf(request: FastifyRequest): number {
  const { bodyLimit } = request.routeOptions;
  return isAuthenticated(request) ? bodyLimit : Math.min(bodyLimit, MAX_UNAUTHENTICATED_BODY_BYTES);
}

/** JSON Merge Patch (RFC 7396): how a `PATCH` may call its body; `application/json` means the same there. */
export const MERGE_PATCH_TYPE = 'application/merge-patch+json';

/** A body of this type stays text. Only routes that add a parser for it accept it. */
export const TEXT_TYPE = 'text/csv';

function parseInto(request: FastifyRequest, bytes: Buffer, done: Done): void {
  const { body, exactFrom } = request.routeOptions.config;
  if (body === 'raw') {
    done(null, bytes);
    return;
  }
  const text = withoutByteOrderMark(bytes);
  if (request.headers['content-type']?.trimStart().toLowerCase().startsWith(TEXT_TYPE)) {
    if (isUtf8(text)) done(null, text.toString('utf8'));
    else done(invalidRequest({ path: '', message: 'is not valid UTF-8' }));
    return;
  }
  const none = { ok: true, value: undefined, read: undefined } as const;
  const parsed = text.length === 0 ? none : parseJson(text, body, exactFrom);
  if (parsed.ok) {
    if (parsed.read !== undefined) request.tolerantBody = parsed.read;
    done(null, parsed.value);
  } else done(invalidRequest(...parsed.faults));
}

/** Some libraries write a byte order mark before a text; it is not JSON. */
export function withoutByteOrderMark(text: Buffer): Buffer {
  return text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf ? text.subarray(3) : text;
}

/** The minimal allocation for a body of more than one chunk, bytes. */
const MIN_CAPACITY = 4 * 1024;

interface ReadBodyOptions {
  readonly limit: number;
  /** `Content-Length`; undefined for a chunked body. */
  readonly expected: number | undefined;
  /** Called before the total allocation grows to so many bytes; returns the error to refuse the body with, if any. */
  readonly reserve: (bytes: number) => Error | undefined;
}

interface BodyReading {
  /** Ends the reading with an error and discards the rest of the body. No effect once the reading has ended. */
  stop(error: Error): void;
}

/**
 * Reads a body into one buffer, which grows with the received bytes and not with the announced `Content-Length`. Every
 * byte is reserved before it is kept. A body of one chunk, the case of most events, is not copied; small chunks are
 * copied together, so that each costs no more than its content.
 */
export function readBody(
  payload: Readable,
  options: ReadBodyOptions,
  done: (error: Error | null, body?: Buffer) => void,
): BodyReading {
  const { limit, expected, reserve } = options;
  let body: Buffer | undefined;
  let length = 0;
  let isFinished = false;

  function finish(error: Error | null, read?: Buffer): void {
    if (isFinished) return;
    isFinished = true;
    payload.removeListener('data', onData);
    payload.removeListener('end', onEnd);
    payload.removeListener('error', onError);
    body = undefined;
    done(error, read);
  }

  function stop(error: Error): void {
    finish(error);
    payload.resume();
  }

  /** Returns the error to end the reading with, if the chunk cannot be kept. */
  function keep(chunk: Buffer): Error | undefined {
    const needed = length + chunk.length;
    if (needed > limit) return bodyTooLarge();
    if (body === undefined || needed > body.length) {
      const capacity = body === undefined ? needed : capacityFor(needed, expected ?? limit);
      const refusal = reserve(capacity);
      if (refusal !== undefined) return refusal;
      body = body === undefined ? chunk : copyOf(body, length, capacity);
    }
    if (length > 0) chunk.copy(body, length);
    length = needed;
    return undefined;
  }

  function onData(data: Buffer | string): void {
    const refusal = keep(typeof data === 'string' ? Buffer.from(data) : data);
    if (refusal !== undefined) stop(refusal);
  }

  function onEnd(): void {
    if (expected !== undefined && length !== expected)
      finish(invalidRequest({ path: '', message: 'the body is not as long as its content-length says' }));
    else finish(null, body === undefined ? Buffer.alloc(0) : body.subarray(0, length));
  }

  function onError(): void {
    finish(invalidRequest({ path: '', message: 'the request cannot be read' }));
  }

  payload.on('data', onData);
  payload.on('end', onEnd);
  payload.on('error', onError);
  payload.resume();
  return { stop };
}

/** Doubles the capacity, so that copying is linear in the size of the body, up to the size of the body. */
function capacityFor(needed: number, end: number): number {
  return Math.max(needed, Math.min(2 * needed, end), Math.min(MIN_CAPACITY, end));
}

function copyOf(body: Buffer, length: number, capacity: number): Buffer {
  const larger = Buffer.allocUnsafeSlow(capacity);
  body.copy(larger, 0, 0, length);
  return larger;
}

type Inflater = (body: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>;

const [fromGzip, fromZlib, fromRawDeflate, fromZstd] = [
  promisify(gunzip),
  promisify(inflateZlib),
  promisify(inflateRaw),
  promisify(zstdDecompress),
];

/** A frame may ask for a window of 128 MiB. Decoders have to support 8 MiB (RFC 8878), and no body is longer. */
const ZSTD = { params: { [constants.ZSTD_d_windowLogMax]: 23 } };

/** `deflate` means a zlib stream (RFC 9110); some senders leave out its header. */
const fromDeflate: Inflater = (body, options) =>
  hasZlibHeader(body) ? fromZlib(body, options) : fromRawDeflate(body, options);

const INFLATERS = new Map<string, Inflater>([
  ['gzip', fromGzip],
  // An alias of gzip (RFC 9110).
  ['x-gzip', fromGzip],
  ['deflate', fromDeflate],
  ['br', promisify(brotliDecompress)],
  ['zstd', (body, options) => fromZstd(body, { ...options, ...ZSTD })],
]);

const IDENTITY = 'identity';
/** A library and a proxy may each have compressed the body. */
const MAX_ENCODINGS = 2;
const NO_ENCODINGS: readonly string[] = [];

/** The content encodings of a body, in the order in which they were applied; none for a plain body. */
function encodingsOf({ headers }: FastifyRequest): readonly string[] {
  const names = headers['content-encoding'];
  if (names === undefined) return NO_ENCODINGS;
  return names
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== IDENTITY);
}

function isCompressed(request: FastifyRequest): boolean {
  return encodingsOf(request).length > 0;
}

function isSupported(encodings: readonly string[]): boolean {
  return encodings.length <= MAX_ENCODINGS && encodings.every((name) => INFLATERS.has(name));
}

/**
 * Inflates a body as a whole, which stops at `maxOutputLength`; a stream would continue past the limit without a reader.
 *
 * Errors: 413 above the limit, 400 for a body that is not encoded as stated.
 */
async function inflate(body: Buffer, encodings: readonly string[], maxOutputLength: number): Promise<Buffer> {
  try {
    let inflated = body;
    for (const encoding of encodings.toReversed())
      inflated = (await INFLATERS.get(encoding)?.(inflated, { maxOutputLength })) ?? inflated;
    return inflated;
  } catch (error) {
    throw isTooLarge(error) ? bodyTooLarge() : notAsEncoded();
  }
}

/** RFC 1950: the compression method is 8, and the first two bytes are a multiple of 31. */
function hasZlibHeader(body: Buffer): boolean {
  const [method = 0, flags = 0] = body;
  return (method & 0x0f) === 8 && (method * 256 + flags) % 31 === 0;
}

function isTooLarge(error: unknown): boolean {
  return hasCode(error, 'ERR_BUFFER_TOO_LARGE');
}

function notAsEncoded(): Error {
  return invalidRequest({ path: '', message: 'the body is not what its content-encoding says' });
}
