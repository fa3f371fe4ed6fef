import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { getHeapStatistics } from 'node:v8';
import { brotliDecompress, constants, gunzip, inflate, inflateRaw, zstdDecompress } from 'node:zlib';
import { FairBudget, type Permit } from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { GatewayDependencies } from '../dependencies.ts';
import { bodyTooLarge, invalidRequest, unavailable, unsupportedMediaType } from '../errors/api-error.ts';
import { disconnectSignal, FairSemaphore } from '../limits/fair-semaphore.ts';
import { hasCaller, ownersOf } from '../limits/memory-budgets.ts';
import { type BodyForm, parseJson } from './parse-json.ts';
import { type BodyReading, readBody } from './read-body.ts';
import type { TolerantBody } from './tolerant-json.ts';

/** A body at most, as it is sent and inflated. */
export const MAX_BODY_BYTES = 4 * 1024 * 1024;

/**
 * As long as nobody has said whose it is: a few KB fill 4 MiB that take half a second to parse. More than SDKs send in one
 * request with their key in the body; what pages send as they close is 64 KiB at most.
 */
const MAX_STRANGERS_BODY_BYTES = 512 * 1024;

/** Parts of the heap that all bodies together take, and those of unauthenticated callers: parsed, they take several times as much. */
const BUDGET_PART = 16;
const UNAUTHENTICATED_BUDGET_PART = 64;
/** But never fewer than so many of the longest. */
const MIN_BODIES = 4;
/** What one organization, account or address may take of what the others leave. */
const LARGEST_SHARE = 3 / 4;

/** So much of each body is not counted: every connection may fill as much with the headers of its request. */
const UNCOUNTED_BYTES = 16 * 1024;

/**
 * Inflated at a time; each waits until the one before it was read, so that what is inflated does not pile up. Callers
 * without a credential have a turn of their own: however many addresses they have, the others do not wait for them.
 */
const INFLATING = {
  concurrency: 4,
  maxWaiting: Number.POSITIVE_INFINITY,
  maxWaitingPerOwner: Number.POSITIVE_INFINITY,
  retryAfterSeconds: 1,
};
const INFLATING_UNAUTHENTICATED = { ...INFLATING, concurrency: 1 };

type Inflater = (body: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>;

const [gunzipped, inflatedWhole, inflatedRaw, unzstd] = [
  promisify(gunzip),
  promisify(inflate),
  promisify(inflateRaw),
  promisify(zstdDecompress),
];

/** A few bytes may ask for a window of 128 MiB; readers need to take 8 MiB (RFC 8878), and no body is longer. */
const ZSTD = { params: { [constants.ZSTD_d_windowLogMax]: 23 } };

/** `deflate` means a stream with the header of zlib; some senders leave that out. */
const deflated: Inflater = (body, options) =>
  hasZlibHeader(body) ? inflatedWhole(body, options) : inflatedRaw(body, options);

const INFLATERS = new Map<string, Inflater>([
  ['gzip', gunzipped],
  // Its name before it had one: RFC 9110 has both mean the same.
  ['x-gzip', gunzipped],
  ['deflate', deflated],
  ['br', promisify(brotliDecompress)],
  ['zstd', (body, options) => unzstd(body, { ...options, ...ZSTD })],
]);

/** Says that the body is plain. */
const IDENTITY = 'identity';
/** Of a body that a library and a proxy compressed, one after the other. */
const MAX_ENCODINGS = 2;

type Done = (error: Error | null, value?: unknown) => void;

type BodyDependencies = Pick<GatewayDependencies, 'metrics' | 'memory'>;

/** What a body that is not small has while its request lasts. */
interface HeldBody {
  readonly permit: Permit;
  readonly disconnected: AbortSignal;
  /** While it is being read. */
  reading: BodyReading | undefined;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Reads a body as JSON, whatever its type says that it is. */
    parseBody(request: FastifyRequest, payload: Readable, done: Done): void;
  }
  interface FastifyContextConfig {
    /** How the body is taken. Default: `strict`. */
    readonly body?: BodyForm;
    /** How deep in the body, or in an item of it, numbers begin that keep their digits. Default: 0, everywhere. */
    readonly exactFrom?: number;
  }
  interface FastifyRequest {
    /** Undefined where there is no body, or a small one. */
    heldBody: HeldBody | undefined;
    /** Of the body as it was parsed, inflated. */
    bodyBytes: number;
    /** What was found in a body that `JSON.parse` alone would change; undefined for nearly all. */
    tolerantBody: TolerantBody | undefined;
    /** Rejects unless what makes a body worth its parsing stands in its text; undefined where that is known already. */
    proveByBody: ((text: Buffer) => Promise<void>) | undefined;
  }
}

/**
 * Bodies are strict JSON, plain or compressed; the limit holds for what is inflated. All bodies at once have a bound,
 * divided fairly between those who send them: 503 for a caller whose share is used up, and for bodies that were begun
 * first and still come when a caller below its share needs the memory. An empty body is no body: routes that need one
 * refuse it by their schema.
 */
export const bodyPlugin = fastifyPlugin<BodyDependencies>(async (app, { metrics, memory = {} }) => {
  const known = { budget: budgetOf(BUDGET_PART, memory.bodies), inflating: new FairSemaphore(INFLATING) };
  const unauthenticated = {
    budget: budgetOf(UNAUTHENTICATED_BUDGET_PART, memory.unauthenticatedBodies),
    inflating: new FairSemaphore(INFLATING_UNAUTHENTICATED),
  };
  const shared = (request: FastifyRequest) => (hasCaller(request) ? known : unauthenticated);

  /** Counts a body that may grow beyond a small one, from its first byte to the answer. */
  function hold(request: FastifyRequest, reply: FastifyReply): Error | null {
    const { 'content-length': length, 'transfer-encoding': chunked } = request.headers;
    if (length === undefined && chunked === undefined) return null;
    if (Number(length) <= UNCOUNTED_BYTES && !isCompressed(request)) return null;
    if (Number(length) > limitFor(request)) return bodyTooLarge();
    const permit = shared(request).budget.open(ownersOf(request), {
      mayEnd: () => request.heldBody?.reading !== undefined,
      onEnded: () => request.heldBody?.reading?.stop(noRoom('ended')),
    });
    request.heldBody = { permit, disconnected: disconnectSignal(reply), reading: undefined };
    reply.raw.once('close', permit.release);
    return null;
  }

  function noRoom(reason: 'share' | 'ended'): Error {
    metrics.count('tributary_bodies_refused_total', { reason });
    return unavailable({}, new Error(`the memory for bodies is used up (${reason})`));
  }

  function reserve({ heldBody }: FastifyRequest, bytes: number): Error | undefined {
    if (heldBody === undefined || bytes <= UNCOUNTED_BYTES || heldBody.permit.resize(bytes)) return undefined;
    return noRoom('share');
  }

  /**
   * Inflated in one piece, as that ends at the limit: a stream would go on behind it for as long as a few bytes say, with
   * nobody left to read it.
   */
  async function inflated(request: FastifyRequest, body: Buffer): Promise<Buffer> {
    const encodings = encodingsOf(request).toReversed();
    const { heldBody } = request;
    if (encodings.length === 0 || heldBody === undefined || body.length === 0) return body;
    const maxOutputLength = limitFor(request);
    const owner = ownersOf(request).slice(0, 2).join(' ');
    const text = await shared(request).inflating.run(owner, heldBody.disconnected, async () => {
      try {
        let inflated = body;
        for (const encoding of encodings)
          inflated = (await INFLATERS.get(encoding)?.(inflated, { maxOutputLength })) ?? inflated;
        return inflated;
      } catch (error) {
        throw isTooLarge(error) ? bodyTooLarge() : notAsEncoded();
      }
    });
    const refusal = reserve(request, text.length);
    if (refusal !== undefined) throw refusal;
    return text;
  }

  async function read(request: FastifyRequest, body: Buffer): Promise<Buffer> {
    const text = withoutMark(await inflated(request, body));
    await request.proveByBody?.(text);
    return text;
  }

  function parseRead(request: FastifyRequest, body: Buffer, done: Done): void {
    const parseText = (text: Buffer) => {
      request.bodyBytes = text.length;
      parse(request, text, done);
    };
    // The way of most events waits for no promise.
    if (request.proveByBody === undefined && !isCompressed(request)) parseText(withoutMark(body));
    else read(request, body).then(parseText, done);
  }

  app.decorateRequest('heldBody');
  app.decorateRequest('bodyBytes', 0);
  app.decorateRequest('tolerantBody');
  app.decorateRequest('proveByBody');
  app.decorate('parseBody', (request, payload, done) => {
    const { heldBody } = request;
    const length = request.headers['content-length'];
    const reading = readBody(
      payload,
      {
        limit: limitFor(request),
        expected: length === undefined ? undefined : Number(length),
        reserve: (bytes) => reserve(request, bytes),
      },
      (error, body) => {
        if (heldBody !== undefined) heldBody.reading = undefined;
        if (body === undefined) {
          heldBody?.permit.release();
          return done(error);
        }
        // A buffer that grew may be larger than what came.
        if (body.length > UNCOUNTED_BYTES) heldBody?.permit.resize(body.length);
        parseRead(request, body, done);
      },
    );
    if (heldBody !== undefined) heldBody.reading = reading;
  });
  app.addHook('preParsing', (request, reply, payload, done) => {
    const encodings = encodingsOf(request);
    const isReadable = encodings.length <= MAX_ENCODINGS && encodings.every((name) => INFLATERS.has(name));
    done(isReadable ? hold(request, reply) : unsupportedMediaType(), payload);
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', app.parseBody);
});

function budgetOf(partOfHeap: number, bytes?: number): FairBudget {
  const heapBytes = getHeapStatistics().heap_size_limit;
  const capacity = bytes ?? Math.max(heapBytes / partOfHeap, MIN_BODIES * MAX_BODY_BYTES);
  return new FairBudget({ capacity, largestShare: LARGEST_SHARE });
}

function limitFor(request: FastifyRequest): number {
  const { bodyLimit } = request.routeOptions;
  return hasCaller(request) ? bodyLimit : Math.min(bodyLimit, MAX_STRANGERS_BODY_BYTES);
}

function parse(request: FastifyRequest, text: Buffer, done: Done): void {
  const none = { ok: true, value: undefined, read: undefined } as const;
  const { body, exactFrom } = request.routeOptions.config;
  const parsed = text.length === 0 ? none : parseJson(text, body, exactFrom);
  if (parsed.ok) {
    if (parsed.read !== undefined) request.tolerantBody = parsed.read;
    done(null, parsed.value);
  } else done(invalidRequest(...parsed.faults));
}

/** Without the byte order mark that some libraries write before a text: it is no JSON. */
function withoutMark(text: Buffer): Buffer {
  return text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf ? text.subarray(3) : text;
}

/** RFC 1950: the method is 8, and the two bytes are a multiple of 31. */
function hasZlibHeader(body: Buffer): boolean {
  const [method = 0, flags = 0] = body;
  return (method & 0x0f) === 8 && (method * 256 + flags) % 31 === 0;
}

function isCompressed(request: FastifyRequest): boolean {
  return encodingsOf(request).length > 0;
}

const NO_ENCODINGS: readonly string[] = [];

/** In the order in which they were applied. */
function encodingsOf({ headers }: FastifyRequest): readonly string[] {
  const names = headers['content-encoding'];
  if (names === undefined) return NO_ENCODINGS;
  return names
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== IDENTITY);
}

function isTooLarge(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE';
}

function notAsEncoded(): Error {
  return invalidRequest({ path: '', message: 'the body is not what its content-encoding says' });
}
