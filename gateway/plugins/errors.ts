import { messageOf, TributaryError } from '@tributary/core';
import type { FastifyError, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { GatewayDependencies } from '../dependencies.ts';
import { answerError } from '../http/answer-error.ts';
import {
  ApiError,
  invalidRequest,
  payloadTooLarge,
  unavailable,
  unsupportedMediaType,
} from '../http/errors.ts';
import { describeValidation } from '../http/validation.ts';

/** Turns whatever is thrown into the one error shape, without stacks and without library wording. */
export const errorsPlugin = fastifyPlugin<Pick<GatewayDependencies, 'logger'>>(async (app, { logger }) => {
  app.setErrorHandler((error: FastifyError, request: FastifyRequest, reply) => {
    const known = toApiError(error);
    if (known !== undefined) return answerError(reply, known);
    logger.error(
      { request_id: request.id, error: messageOf(error), stack: error.stack },
      'request failed unexpectedly',
    );
    return answerError(reply, new ApiError(500, 'internal error'));
  });
});

/** Fastify's own refusals, by code; undefined for what nobody foresaw. */
function toApiError(error: FastifyError | ApiError | TributaryError): ApiError | undefined {
  if (error instanceof ApiError) return error;
  // What can never be taken should have been refused before it was handed to a port: nobody foresaw it.
  if (error instanceof TributaryError) return error.retryable ? unavailable() : undefined;
  if (error.validation !== undefined)
    return invalidRequest(...describeValidation(error.validation, error.validationContext));
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return payloadTooLarge('', 'the body is too large');
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_CP_ERR_INVALID_CONTENT_ENCODING':
      return unsupportedMediaType();
    case 'FST_CP_ERR_INVALID_CONTENT':
      return invalidRequest({ path: '', message: 'the body is not what its content-encoding says' });
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
      return invalidRequest({ path: '', message: 'the body is empty' });
  }
  if (typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500) {
    return invalidRequest({ path: '', message: 'the request cannot be read' });
  }
  return undefined;
}
