import type { FastifyReply } from 'fastify';
import type { ApiError } from './errors.ts';

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
