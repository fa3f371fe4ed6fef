import { promisify } from 'node:util';
import { getHeapStatistics } from 'node:v8';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { GatewayDependencies } from '../dependencies.ts';
import type { Caller } from '../http/caller.ts';
import { bodyTooLarge, invalidRequest, unavailable, unsupportedMediaType } from '../http/errors.ts';
import { parseJson } from '../http/json.ts';
import { Turns } from '../http/turns.ts';
import { BodyRoom, type HeldRoom } from './body-room.ts';

/** A body at most, as it is sent and inflated. */
export const MAX_BODY_BYTES = 4 * 1024 * 1024;

/**
 * As long as nobody has said whose it is: a few KB fill 4 MiB that take half a second to parse. More than SDKs send in one
 * request with their key in the body; what pages send as they close is 64 KiB at most.
 */
const MAX_STRANGERS_BODY_BYTES = 512 * 1024;

/** What parts of the heap all bodies together take, and those of strangers: what is parsed takes some times as much. */
const ROOM_PART = 16;
const STRANGERS_ROOM_PART = 64;
/** But never fewer than so many of the longest. */
const MIN_BODIES = 4;

/** A plain one of no more is not counted: every connection may fill as much with the headers of its request. */
const SMALL_BODY_BYTES = 16 * 1024;

/** Inflated at a time; each waits until the one before it was read, so that what is inflated does not pile up. */
const INFLATING = {
  atATime: 4,
  waiting: Number.POSITIVE_INFINITY,
  waitingEach: Number.POSITIVE_INFINITY,
  retryAfterSeconds: 1,
};

const INFLATERS = new Map([
  ['gzip', promisify(gunzip)],
  ['deflate', promisify(inflate)],
  ['br', promisify(brotliDecompress)],
]);

/** Says that the body is plain. */
const IDENTITY = 'identity';

type Done = (error: Error | null, value?: unknown) => void;

declare module 'fastify' {
  interface FastifyInstance {
    /** Reads a body as JSON, whatever its type says that it is. */
    parseBody(request: FastifyRequest, body: Buffer, done: Done): void;
  }
  interface FastifyRequest {
    /** Undefined where there is no body, or a small one. */
    bodyRoom: HeldRoom | undefined;
    /** Rejects unless what makes a body worth its parsing stands in its text; undefined where that is known already. */
    proveByBody: ((text: Buffer) => Promise<void>) | undefined;
  }
}

/**
 * Bodies are strict JSON, plain or compressed; the limit holds for what is inflated, and a bound for all bodies at once:
 * 503 beyond it. An empty body is no body: routes that need one refuse it by their schema.
 */
export const bodyPlugin = fastifyPlugin<Pick<GatewayDependencies, 'metrics'>>(async (app, { metrics }) => {
  const heapBytes = getHeapStatistics().heap_size_limit;
  const room = new BodyRoom(Math.max(heapBytes / ROOM_PART, MIN_BODIES * MAX_BODY_BYTES));
  const strangersRoom = new BodyRoom(Math.max(heapBytes / STRANGERS_ROOM_PART, MIN_BODIES * MAX_BODY_BYTES));
  const inflating = new Turns(INFLATING);

  /** Room for what the request says that it brings; for all that it may bring, where it does not say. */
  function hold(request: FastifyRequest, reply: FastifyReply): Error | null {
    const { 'content-length': said, 'transfer-encoding': inChunks } = request.headers;
    if (said === undefined && inChunks === undefined) return null;
    if (Number(said) <= SMALL_BODY_BYTES && !isCompressed(request)) return null;
    const bytes = said === undefined ? request.routeOptions.bodyLimit : Number(said);
    if (said !== undefined && bytes > limitFor(request)) return bodyTooLarge();
    const held = (isStranger(request) ? strangersRoom : room).take(bytes);
    if (held === undefined) return noRoom();
    request.bodyRoom = held;
    reply.raw.once('close', held.release);
    return null;
  }

  function noRoom(): Error {
    metrics.count('tributary_bodies_refused_total');
    return unavailable();
  }

  /**
   * Inflated in one piece, as that ends at the limit: a stream would go on behind it for as long as a few bytes say, with
   * nobody left to read it.
   */
  async function inflated(request: FastifyRequest, body: Buffer): Promise<Buffer> {
    const inflater = INFLATERS.get(encodingOf(request));
    if (inflater === undefined || body.length === 0) return body;
    const maxOutputLength = limitFor(request);
    const text = await inflating.take(whoseIs(request), new AbortController().signal, async () => {
      try {
        return await inflater(body, { maxOutputLength });
      } catch (error) {
        throw isTooLarge(error) ? bodyTooLarge() : notAsEncoded();
      }
    });
    if (request.bodyRoom?.resize(text.length) === false) throw noRoom();
    return text;
  }

  async function read(request: FastifyRequest, body: Buffer): Promise<Buffer> {
    const text = await inflated(request, body);
    await request.proveByBody?.(text);
    return text;
  }

  app.decorateRequest('bodyRoom');
  app.decorateRequest('proveByBody');
  app.decorate('parseBody', (request, body, done) => {
    // What is longer than its route takes was refused as it was read.
    if (body.length > MAX_STRANGERS_BODY_BYTES && isStranger(request)) return done(bodyTooLarge());
    request.bodyRoom?.resize(body.length);
    // The way of most events waits for no promise.
    if (request.proveByBody === undefined && !isCompressed(request)) parse(body, done);
    else read(request, body).then((text) => parse(text, done), done);
  });
  app.addHook('preParsing', (request, reply, payload, done) => {
    const isReadable = !isCompressed(request) || INFLATERS.has(encodingOf(request));
    done(isReadable ? hold(request, reply) : unsupportedMediaType(), payload);
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, app.parseBody);
});

function limitFor(request: FastifyRequest): number {
  const { bodyLimit } = request.routeOptions;
  return isStranger(request) ? Math.min(bodyLimit, MAX_STRANGERS_BODY_BYTES) : bodyLimit;
}

function isStranger({ caller }: { readonly caller?: Caller }): boolean {
  return caller === undefined;
}

function whoseIs(request: { readonly caller?: Caller; readonly ip: string }): string {
  const { caller, ip } = request;
  if (caller === undefined) return ip;
  return caller.kind === 'id_token' ? caller.account.id : caller.key.id;
}

function parse(text: Buffer, done: Done): void {
  const parsed = text.length === 0 ? ({ ok: true, value: undefined } as const) : parseJson(text);
  if (parsed.ok) done(null, parsed.value);
  else done(invalidRequest(parsed.fault));
}

function isCompressed(request: FastifyRequest): boolean {
  return encodingOf(request) !== IDENTITY;
}

function encodingOf({ headers }: FastifyRequest): string {
  return headers['content-encoding']?.trim().toLowerCase() || IDENTITY;
}

function isTooLarge(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE';
}

function notAsEncoded(): Error {
  return invalidRequest({ path: '', message: 'the body is not what its content-encoding says' });
}
