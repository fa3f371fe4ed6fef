import compress from '@fastify/compress';
import type { FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { ApiError, invalidRequest, unsupportedMediaType } from '../http/errors.ts';
import { parseJson } from '../http/json.ts';

/** A body at most, inflated. */
export const MAX_BODY_BYTES = 4 * 1024 * 1024;

/**
 * Bodies are strict JSON, plain or compressed; the limit holds for what is inflated. An empty body is no body: routes
 * that need one refuse it by their schema.
 */
export const bodyPlugin = fastifyPlugin(async (app) => {
  await app.register(compress, {
    global: false,
    globalCompression: false,
    globalDecompression: true,
    // `identity` says that the body is plain.
    requestEncodings: ['gzip', 'deflate', 'br', 'identity'],
    onUnsupportedRequestEncoding: () => unsupportedMediaType(),
    onInvalidRequestPayload: () =>
      new ApiError(400, 'invalid request', {
        details: [{ path: '', message: 'the body is not what its content-encoding says' }],
      }),
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, parseBody);
});

/** Reads a body as JSON, whatever its type says that it is. */
export function parseBody(
  _request: FastifyRequest,
  body: Buffer,
  done: (error: Error | null, value?: unknown) => void,
): void {
  const parsed = body.length === 0 ? ({ ok: true, value: undefined } as const) : parseJson(body);
  if (parsed.ok) done(null, parsed.value);
  else done(invalidRequest(parsed.fault));
}
