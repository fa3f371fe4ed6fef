import { messageOf, TooLarge, TributaryError } from '@tributary/core';
import type { FastifyError, FastifyRequest, FastifySchemaValidationError } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { GatewayDependencies } from '../dependencies.ts';
import { VISIBLE } from '../resources/schemas.ts';
import {
  ApiError,
  answerError,
  bodyTooLarge,
  type ErrorDetail,
  invalidRequest,
  payloadTooLarge,
  unavailable,
  unsupportedMediaType,
} from './api-error.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The span of a sampled request that failed, for log lines. */
    traceparent: string | undefined;
  }
}

/** Answers every thrown error in the one error shape, without stacks and library messages. */
export const errorsPlugin = fastifyPlugin<Pick<GatewayDependencies, 'logger'>>(async (app, { logger }) => {
  /** Not throttled here: the logger bounds repeated messages. */
  function logUnavailable({ id, routeOptions, traceparent }: FastifyRequest, cause: unknown): void {
    const { operation } = routeOptions.config;
    logger.warn(
      { request_id: id, operation, ...traceIds(traceparent), error: messageOf(cause) },
      'a request is answered with 503; its client should retry it',
    );
  }

  app.decorateRequest('traceparent', undefined);
  app.setErrorHandler((error: FastifyError, request: FastifyRequest, reply) => {
    const known = toApiError(error);
    if (known?.status === 503 && known.cause !== undefined) logUnavailable(request, known.cause);
    if (known !== undefined)
      return answerError(reply, request.routeOptions.config.sdk ? forSdks(known) : known);
    logger.error(
      {
        request_id: request.id,
        ...traceIds(request.traceparent),
        error: messageOf(error),
        stack: error.stack,
      },
      'request failed unexpectedly',
    );
    return answerError(reply, new ApiError(500, 'internal error'));
  });
});

/** The fields by which a log line names the span of a sampled request. */
function traceIds(traceparent: string | undefined) {
  if (traceparent === undefined) return {};
  const [, trace_id, span_id] = traceparent.split('-');
  return { trace_id, span_id };
}

/**
 * SDKs made for Segment read `code` and `message`. Without these some of them (rudder-sdk-python) fail to read the
 * response, take the refusal for an outage, and retry ten times.
 */
function forSdks(refusal: ApiError): ApiError {
  const { error, details, challenge } = refusal;
  const [first] = details ?? [];
  const why = first === undefined ? challenge?.reason : [first.path, first.message].join(' ').trim();
  const message = why === undefined ? error : `${error}: ${why}`;
  return refusal.with({ code: error.replaceAll(' ', '_'), message });
}

/** The response to a known error, Fastify's included; undefined for an unexpected error. */
function toApiError(error: FastifyError | ApiError | TributaryError): ApiError | undefined {
  if (error instanceof ApiError) return error;
  // Should have been refused before it reached the port.
  if (error instanceof TooLarge) return payloadTooLarge('', 'larger than this installation takes');
  if (error instanceof TributaryError) return error.retryable ? unavailable({}, error) : undefined;
  if (error.validation !== undefined)
    return invalidRequest(...describeValidation(error.validation, error.validationContext));
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return bodyTooLarge();
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return unsupportedMediaType();
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
      return invalidRequest({ path: '', message: 'the body is empty' });
  }
  if (typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500) {
    return invalidRequest({ path: '', message: 'the request cannot be read' });
  }
  return undefined;
}

/** Faults that one response reports, at most. */
export const MAX_DETAILS = 20;

const TYPE_WORDS: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  integer: 'an integer',
  boolean: 'true or false',
  object: 'an object',
  array: 'an array',
  null: 'null',
};

export function describeValidation(
  findings: readonly FastifySchemaValidationError[],
  context: string | undefined,
): readonly ErrorDetail[] {
  const details = new Map<string, ErrorDetail>();
  for (const finding of findings) {
    if (details.size === MAX_DETAILS) break;
    const detail = isRepeated(finding, context)
      ? { path: finding.instancePath, message: 'is given more than once' }
      : describe(finding);
    if (detail === undefined) continue;
    const path =
      context === 'querystring' || context === 'headers' ? detail.path.replace(/^\//, '') : detail.path;
    if (!details.has(path)) details.set(path, { path, message: detail.message });
  }
  return [...details.values()];
}

/** The values of a query are texts, and lists where a name is given several times. */
function isRepeated({ keyword, params }: FastifySchemaValidationError, context: string | undefined): boolean {
  return context === 'querystring' && keyword === 'type' && params.type === 'string';
}

function describe({ keyword, instancePath, params }: FastifySchemaValidationError): ErrorDetail | undefined {
  const at = (message: string, child?: unknown): ErrorDetail => ({
    path: child === undefined ? instancePath : `${instancePath}/${String(child)}`,
    message,
  });
  switch (keyword) {
    case 'required':
      return at('is required', params.missingProperty);
    case 'additionalProperties':
      return at('is not a known field', params.additionalProperty);
    case 'type':
      return at(`must be ${typeWords(params.type)}`);
    case 'enum':
      return at(
        `must be one of ${(params.allowedValues as unknown[]).map((value) => JSON.stringify(value)).join(', ')}`,
      );
    case 'const':
      return at(`must be ${JSON.stringify(params.allowedValue)}`);
    case 'minLength':
      return at(params.limit === 1 ? 'must not be empty' : `must have at least ${params.limit} characters`);
    case 'maxLength':
      return at(`must have at most ${params.limit} characters`);
    case 'minItems':
      return at(`must have at least ${params.limit} items`);
    case 'maxItems':
      return at(`must have at most ${params.limit} items`);
    case 'minProperties':
      return at(params.limit === 1 ? 'must not be empty' : `must have at least ${params.limit} fields`);
    case 'uniqueItems':
      return at('must not hold the same item twice');
    case 'minimum':
      return at(`must be at least ${params.limit}`);
    case 'maximum':
      return at(`must be at most ${params.limit}`);
    case 'format':
      return at(`must be a valid ${params.format}`);
    case 'pattern':
      return at(
        params.pattern === VISIBLE
          ? 'must have a visible character, and no control characters or line breaks'
          : 'does not have the right form',
      );
    // The branches of a union have findings of their own.
    case 'anyOf':
    case 'oneOf':
    case 'if':
      return undefined;
    default:
      return at('is not valid');
  }
}

function typeWords(type: unknown): string {
  const types = Array.isArray(type) ? type : String(type).split(',');
  return types.map((name) => TYPE_WORDS[String(name)] ?? String(name)).join(' or ');
}
