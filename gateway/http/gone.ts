import type { FastifyReply } from 'fastify';

/**
 * Fires when nobody waits for the answer any more: it was given, or the connection is closed. A client that closed only
 * its writing side still reads, and cannot be told from one that closed both until something is written to it.
 */
export function whenGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort());
  return gone.signal;
}
