import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { newId } from '@tributary/core';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError, answerError, errorBody, invalidRequest, notFound } from '../errors/api-error.ts';

/** Answers a request whose path no router can read. No hook has run for it. */
export function answerUnroutable(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id);
  const malformed = error.code === 'FST_ERR_BAD_URL';
  answerError(
    reply,
    malformed ? invalidRequest({ path: '', message: 'the path is not a valid URL' }) : notFound(),
  );
}

/** How long a client may take to read such an answer, ms. */
const LINGER_MS = 1_000;

/** Connections whose refusal waits for the answers before it. */
const refusing = new WeakSet<Socket>();

/**
 * Answers what never became a request: no HTTP, headers that are too large, or a client that took too long. The
 * connection ends with it, since nobody knows where its next request would begin; but
 * not at once: a connection closed over what its client still sends is reset, and the client never reads the answer.
 * Whole requests that were pipelined before are answered first: a client takes answers for those of its requests in order.
 */
export function answerUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  if (socket.destroyed || socket.writableEnded) return; // the second fault of a connection that is already ending
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy(error);
    return;
  }
  const before = answerOn(socket);
  if (before?.req.complete === true) {
    if (refusing.has(socket)) return;
    refusing.add(socket);
    before.once('close', () => {
      refusing.delete(socket);
      answerUnreadable(error, socket);
    });
    return;
  }
  socket.end(responseTo(error));
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/** The answer that the connection waits for or writes, which Node's types do not name: the first of pipelined requests. */
function answerOn(socket: Socket & { readonly _httpMessage?: ServerResponse | null }) {
  return socket._httpMessage ?? undefined;
}

function responseTo({ code }: NodeJS.ErrnoException): string {
  const refusal = refusalOf(code);
  const body = JSON.stringify(errorBody(refusal));
  return [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${newId()}`,
    'connection: close',
    '',
    body,
  ].join('\r\n');
}

function refusalOf(code: string | undefined): ApiError {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ApiError(408, 'request timeout');
    case 'HPE_HEADER_OVERFLOW':
      return invalidRequest({ path: '', message: 'the headers are too large' });
    default:
      return invalidRequest({ path: '', message: 'is not valid HTTP' });
  }
}
