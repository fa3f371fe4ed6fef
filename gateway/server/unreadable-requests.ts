import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { newId } from '@tributary/core';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError, answerError, errorBody, invalidRequest, notFound } from '../errors/api-error.ts';

/** Refuses a request whose path cannot be routed. No hook has run for it. */
export function answerUnroutable(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id);
  const malformed = error.code === 'FST_ERR_BAD_URL';
  answerError(
    reply,
    malformed ? invalidRequest({ path: '', message: 'the path is not a valid URL' }) : notFound(),
  );
}

/** How long a client may take to read the response, ms. */
const LINGER_MS = 1_000;

/** Connections whose refusal waits for earlier responses. */
const refusing = new WeakSet<Socket>();

/**
 * Answers a request that cannot be parsed: no HTTP, too large headers, or a timeout. The connection ends with it, as the
 * start of the next request is unknown, but with a delay: closed while the client still sends, it would be reset, and the
 * client could not read the response. Complete requests that were pipelined before are answered first, in order.
 */
export function answerUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  if (socket.destroyed || socket.writableEnded) return; // the connection is already ending
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy(error);
    return;
  }
  const before = responseOn(socket);
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

/** The response in progress, of the first of pipelined requests; not declared by Node's types. */
function responseOn(socket: Socket & { readonly _httpMessage?: ServerResponse | null }) {
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
