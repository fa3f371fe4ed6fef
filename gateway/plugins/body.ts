import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import type { FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Caller } from '../http/caller.ts';
import { type ApiError, bodyTooLarge, invalidRequest, unsupportedMediaType } from '../http/errors.ts';
import { parseJson } from '../http/json.ts';

/** A body at most, as it is sent and inflated. */
export const MAX_BODY_BYTES = 4 * 1024 * 1024;

/**
 * As long as nobody has said whose it is: a few KB fill 4 MiB that take half a second to parse. More than SDKs send in one
 * request with their key in the body; what pages send as they close is 64 KiB at most.
 */
const MAX_STRANGERS_BODY_BYTES = 512 * 1024;

const INFLATERS = new Map([
  ['gzip', gunzip],
  ['deflate', inflate],
  ['br', brotliDecompress],
]);

/** Says that the body is plain. */
const IDENTITY = 'identity';

type Done = (error: Error | null, value?: unknown) => void;

/**
 * Bodies are strict JSON, plain or compressed; the limit holds for what is inflated. An empty body is no body: routes
 * that need one refuse it by their schema.
 */
export const bodyPlugin = fastifyPlugin(async (app) => {
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const encoding = encodingOf(request);
    done(encoding === IDENTITY || INFLATERS.has(encoding) ? null : unsupportedMediaType(), payload);
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, parseBody);
});

/**
 * Reads a body as JSON, whatever its type says that it is. It is inflated in one piece, as that ends at the limit: a
 * stream would go on behind it for as long as a few bytes say, with nobody left to read it.
 */
export function parseBody(request: FastifyRequest, body: Buffer, done: Done): void {
  const inflater = INFLATERS.get(encodingOf(request));
  const limit = limitFor(request);
  if (body.length > limit) {
    done(bodyTooLarge());
    return;
  }
  if (inflater === undefined || body.length === 0) {
    parse(body, done);
    return;
  }
  inflater(body, { maxOutputLength: limit }, (error: NodeJS.ErrnoException | null, inflated) => {
    if (error === null) parse(inflated, done);
    else done(error.code === 'ERR_BUFFER_TOO_LARGE' ? bodyTooLarge() : notAsEncoded());
  });
}

function limitFor(request: {
  readonly caller?: Caller;
  readonly routeOptions: { bodyLimit: number };
}): number {
  const { bodyLimit } = request.routeOptions;
  return request.caller === undefined ? Math.min(bodyLimit, MAX_STRANGERS_BODY_BYTES) : bodyLimit;
}

function parse(body: Buffer, done: Done): void {
  const parsed = body.length === 0 ? ({ ok: true, value: undefined } as const) : parseJson(body);
  if (parsed.ok) done(null, parsed.value);
  else done(invalidRequest(parsed.fault));
}

function encodingOf({ headers }: FastifyRequest): string {
  return headers['content-encoding']?.trim().toLowerCase() || IDENTITY;
}

function notAsEncoded(): ApiError {
  return invalidRequest({ path: '', message: 'the body is not what its content-encoding says' });
}
