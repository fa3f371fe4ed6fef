import type { ConflictCause, ConflictReason } from '@tributary/core';
import type { FastifyReply } from 'fastify';

/** One fault of a request. `path` is a JSON pointer into the body, or the name of a query parameter. */
export interface ErrorDetail {
  readonly path: string;
  readonly message: string;
}

/** Why access is refused, as the header `WWW-Authenticate` has it (RFC 6750). */
export interface Challenge {
  /** Absent when the request has no credential. */
  readonly error?: 'invalid_token' | 'insufficient_scope';
  /** The fault, in fixed words: never text of the request, nor whether an entity of others exists. */
  readonly reason: string;
  /** The scope of the profile API that the call needs. */
  readonly scope?: string;
}

/** An error response. `error` is short and stable; clients may compare it. */
export class ApiError extends Error {
  readonly status: number;
  readonly error: string;
  readonly details: readonly ErrorDetail[] | undefined;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly retryAfterSeconds: number | undefined;
  /** On 401 and 403. */
  readonly challenge: Challenge | undefined;

  constructor(
    status: number,
    error: string,
    options: {
      details?: readonly ErrorDetail[] | undefined;
      fields?: Readonly<Record<string, unknown>>;
      retryAfterSeconds?: number | undefined;
      challenge?: Challenge | undefined;
      /** For the log; not sent to the caller. */
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
    this.challenge = options.challenge;
  }

  /** The same response with further fields. */
  with(fields: ApiError['fields']): ApiError {
    const { details, retryAfterSeconds, challenge, cause } = this;
    return new ApiError(this.status, this.error, {
      ...{ details, retryAfterSeconds, challenge, cause },
      fields: { ...this.fields, ...fields },
    });
  }
}

const RETRY_AFTER_SECONDS = 1;

export function invalidRequest(...details: readonly ErrorDetail[]): ApiError {
  return new ApiError(400, 'invalid request', { details });
}

/** 401. The body is that of the spec; the reason is in the header `WWW-Authenticate`. */
export function notAuthenticated(challenge: Challenge): ApiError {
  return new ApiError(401, 'not authenticated', { challenge });
}

/** 403. `reason`: what is missing, in the header alone as well. */
export function permissionDenied(reason: string, scope?: string): ApiError {
  return new ApiError(403, 'permission denied', {
    challenge: { error: 'insufficient_scope', reason, ...(scope === undefined ? {} : { scope }) },
  });
}

export function notFound(): ApiError {
  return new ApiError(404, 'not found');
}

/** 405: the path has other methods, which the caller sets as `Allow`. */
export function methodNotAllowed(): ApiError {
  return new ApiError(405, 'method not allowed');
}

/** Why a change conflicts with the current state. */
type ConflictCode =
  | ConflictReason
  /** The delivery is not dead, or no longer. */
  | 'not_dead'
  /** The log no longer has the event of the delivery. */
  | 'event_not_kept'
  /** Enabled rules use the transformation, and its test fails. */
  | 'test_failed'
  /** This release has no connector for the destination, or no key opens its secrets. */
  | 'unusable'
  /** How an earlier run of the hook ended is unknown. */
  | 'hook_unfinished'
  /** The ucid belongs to a profile of its own. */
  | 'not_merged'
  /** No part of the merged profile is known to come from the ucid. */
  | 'unknown_origin'
  /** The destination is loaded by nothing. */
  | 'not_a_warehouse'
  /** The destination is disabled or paused. */
  | 'disabled'
  /** Destinations of this type are connected with no service. */
  | 'no_service'
  /** The operator has not said where browsers reach this server. */
  | 'no_public_url'
  /** The source of a write key takes no webhooks of this kind. */
  | 'no_webhook'
  /** Processes of an older release may still run, and would stop at it. */
  | 'upgrade_pending';

/** 409. `causes` names the entities that prevent the change, if any; `details` say more of the reason. */
export function conflict(
  reason: ConflictCode,
  causes: readonly ConflictCause[] = [],
  details?: readonly ErrorDetail[],
): ApiError {
  return new ApiError(409, 'conflict', {
    fields: { reason, causes },
    details,
  });
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

/** `fields` name the bound that was reached, where that is one of a workspace, organization or account. */
export function tooManyRequests(retryAfterSeconds: number, fields: ApiError['fields'] = {}): ApiError {
  return new ApiError(429, 'too many requests', { retryAfterSeconds, fields });
}

/** 503: nothing is confirmed. `fields` may contain the assigned ids, for a retry; `cause` is for the log only. */
export function unavailable(fields: Readonly<Record<string, unknown>> = {}, cause?: unknown): ApiError {
  return new ApiError(503, 'unavailable', { fields, cause, retryAfterSeconds: RETRY_AFTER_SECONDS });
}

export function errorBody({ error, fields, details }: ApiError): Readonly<Record<string, unknown>> {
  return { error, ...fields, ...(details === undefined ? {} : { details }) };
}

function challengeText({ error, reason, scope }: Challenge): string {
  const parameters = { realm: 'tributary', error, error_description: reason, scope };
  const written = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}="${value}"`],
  );
  return `Bearer ${written.join(', ')}`;
}

export function answerError(reply: FastifyReply, error: ApiError): FastifyReply {
  if (error.retryAfterSeconds !== undefined) reply.header('retry-after', String(error.retryAfterSeconds));
  if (error.challenge !== undefined) reply.header('www-authenticate', challengeText(error.challenge));
  // Fastify would close the connection of a client that is still sending, which then could not read the response. When it
  // stays open, Node reads and discards the rest within the request's timeout.
  if (error.status === 413 || error.status === 503) reply.removeHeader('connection');
  return reply
    .code(error.status)
    .type('application/json; charset=utf-8')
    .serializer(JSON.stringify)
    .send(errorBody(error));
}
