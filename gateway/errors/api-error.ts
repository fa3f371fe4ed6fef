import type { ConflictCause, ConflictReason } from '@tributary/core';
import type { FastifyReply } from 'fastify';

/** One thing that is wrong with a request. `path` is a JSON pointer into the body, or the name of a parameter of the query. */
export interface ErrorDetail {
  readonly path: string;
  readonly message: string;
}

/** An answer other than success. `error` is short and stable; clients may compare it. */
export class ApiError extends Error {
  readonly status: number;
  readonly error: string;
  readonly details: readonly ErrorDetail[] | undefined;
  /** Further fields of the body. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly retryAfterSeconds: number | undefined;

  constructor(
    status: number,
    error: string,
    options: {
      details?: readonly ErrorDetail[];
      fields?: Readonly<Record<string, unknown>>;
      retryAfterSeconds?: number;
      /** What the caller is not told. */
      cause?: unknown;
    } = {},
  ) {
    super(error, options.cause === undefined ? {} : { cause: options.cause });
    this.name = 'ApiError';
    this.status = status;
    this.error = error;
    this.details = options.details;
    this.fields = options.fields ?? {};
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

const RETRY_AFTER_SECONDS = 1;

export function invalidRequest(...details: readonly ErrorDetail[]): ApiError {
  return new ApiError(400, 'invalid request', { details });
}

export function notAuthenticated(): ApiError {
  return new ApiError(401, 'not authenticated');
}

export function permissionDenied(): ApiError {
  return new ApiError(403, 'permission denied');
}

export function notFound(): ApiError {
  return new ApiError(404, 'not found');
}

/** 405: the path is there and knows other methods, which `Allow` has to name. */
export function methodNotAllowed(): ApiError {
  return new ApiError(405, 'method not allowed');
}

/**
 * Why what is there does not let a change be made: the catalog's reasons, and
 *
 * - `not_dead`: the delivery is not dead (any more).
 * - `unusable`: no connector of this release, or no key of it, opens the destination.
 * - `not_merged`: the ucid is that of a profile of its own.
 * - `unknown_origin`: nothing of the merged profile is known to have come from the ucid.
 */
type ConflictCode = ConflictReason | 'not_dead' | 'unusable' | 'not_merged' | 'unknown_origin';

/** 409. `causes` names the things that stand in the way, where there are any. */
export function conflict(reason: ConflictCode, causes: readonly ConflictCause[] = []): ApiError {
  return new ApiError(409, 'conflict', { fields: { reason, causes } });
}

export function versionMismatch(): ApiError {
  return new ApiError(412, 'version mismatch');
}

export function payloadTooLarge(path: string, message: string): ApiError {
  return new ApiError(413, 'payload too large', { details: [{ path, message }] });
}

export function bodyTooLarge(): ApiError {
  return payloadTooLarge('', 'the body is too large');
}

export function unsupportedMediaType(): ApiError {
  return new ApiError(415, 'unsupported media type');
}

export function tooManyRequests(retryAfterSeconds: number): ApiError {
  return new ApiError(429, 'too many requests', { retryAfterSeconds });
}

/**
 * 503: nothing is confirmed. `fields` may carry the ids that were assigned, to send again with; `cause` is for the log
 * alone.
 */
export function unavailable(fields: Readonly<Record<string, unknown>> = {}, cause?: unknown): ApiError {
  return new ApiError(503, 'unavailable', { fields, cause, retryAfterSeconds: RETRY_AFTER_SECONDS });
}

/** The one shape of every answer that is no success. */
export function errorBody({ error, fields, details }: ApiError): Readonly<Record<string, unknown>> {
  return { error, ...fields, ...(details === undefined ? {} : { details }) };
}

export function answerError(reply: FastifyReply, error: ApiError): FastifyReply {
  if (error.retryAfterSeconds !== undefined) reply.header('retry-after', String(error.retryAfterSeconds));
  // Fastify would close the connection under a client that is still sending, which then never reads the answer. Kept
  // open, Node reads the rest and throws it away, within the request's time limit.
  if (error.status === 413 || error.status === 503) reply.removeHeader('connection');
  return reply
    .code(error.status)
    .type('application/json; charset=utf-8')
    .serializer(JSON.stringify)
    .send(errorBody(error));
}
