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

/** Turns whatever is thrown into the one error shape, without stacks and without library wording. */
export const errorsPlugin = fastifyPlugin<Pick<GatewayDependencies, 'logger'>>(async (app, { logger }) => {
  /** Each of them: how many are written is the logger's to decide. */
  function logUnavailable({ id, routeOptions }: FastifyRequest, cause: unknown): void {
    const { operation } = routeOptions.config;
    logger.warn(
      { request_id: id, operation, error: messageOf(cause) },
      'a request is answered with 503, to be repeated',
    );
  }

  app.setErrorHandler((error: FastifyError, request: FastifyRequest, reply) => {
    const known = toApiError(error);
    if (known?.status === 503 && known.cause !== undefined) logUnavailable(request, known.cause);
    if (known !== undefined)
      return answerError(reply, request.routeOptions.config.sdk ? inWordsOfSdks(known) : known);
    logger.error(
      { request_id: request.id, error: messageOf(error), stack: error.stack },
      'request failed unexpectedly',
    );
    return answerError(reply, new ApiError(500, 'internal error'));
  });
});

/**
 * SDKs that were made for Segment read `code` and `message`. Where they are missing some (rudder-sdk-python) fail over
 * the answer itself, and take a refusal for an outage that is worth ten more tries.
 */
function inWordsOfSdks(refusal: ApiError): ApiError {
  const { status, error, details, retryAfterSeconds } = refusal;
  const [first] = details ?? [];
  const message = first === undefined ? error : `${error}: ${[first.path, first.message].join(' ').trim()}`;
  return new ApiError(status, error, {
    fields: { code: error.replaceAll(' ', '_'), message, ...refusal.fields },
    ...(details === undefined ? {} : { details }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
}

/** Fastify's own refusals, by code; undefined for what nobody foresaw. */
function toApiError(error: FastifyError | ApiError | TributaryError): ApiError | undefined {
  if (error instanceof ApiError) return error;
  // What can never be taken should have been refused before it was handed to a port: nobody foresaw it.
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
