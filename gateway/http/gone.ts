import type { FastifyReply } from 'fastify';

/** Fires when nobody waits for the answer any more: it was given, or the caller left. */
export function whenGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort());
  return gone.signal;
}
