import { messageOf, TooLarge, TributaryError } from '@tributary/core';
import type { FastifyError, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { GatewayDependencies } from '../dependencies.ts';
import {
  ApiError,
  answerError,
  bodyTooLarge,
  invalidRequest,
  payloadTooLarge,
  unavailable,
  unsupportedMediaType,
} from './api-error.ts';
import { describeValidation } from './validation.ts';

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
  const { status, error, details, retryAfterSeconds, challenge } = refusal;
  const [first] = details ?? [];
  const why = first === undefined ? challenge?.reason : [first.path, first.message].join(' ').trim();
  const message = why === undefined ? error : `${error}: ${why}`;
  return new ApiError(status, error, {
    fields: { code: error.replaceAll(' ', '_'), message, ...refusal.fields },
    ...(details === undefined ? {} : { details }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(challenge === undefined ? {} : { challenge }),
  });
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
