import { getHeapStatistics } from 'node:v8';
import { FairBudget } from '@tributary/core';
import type { FastifyReply } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { GatewayDependencies } from '../dependencies.ts';
import { unavailable } from '../http/errors.ts';
import { ownersOf } from '../http/owners.ts';

/** So much of each answer is not counted, as of each body. */
const UNCOUNTED_BYTES = 16 * 1024;
/** Part of the heap that all answers take that wait to be read. */
const BUDGET_PART = 16;
const MIN_BUDGET_BYTES = 64 * 1024 * 1024;
const LARGEST_SHARE = 3 / 4;

/** The memory of one answer. */
export interface HeldAnswer {
  /** Counts an answer of so many bytes until its client has read it; 503 where the caller holds its share already. */
  resize(bytes: number): void;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** For an answer that is made in pieces; answers to `GET` that are sent as one text are counted by themselves. */
    holdAnswer(request: FastifyRequest, reply: FastifyReply): HeldAnswer;
  }
}

/**
 * Bounds what large answers hold while their clients do not read them. A client may take its time as long as nobody else
 * needs the memory; then the connections of the callers that hold most are closed, those that wait longest first. Answers
 * to calls that change something are no larger than their bodies, which count until they are answered.
 */
export const answersPlugin = fastifyPlugin<Pick<GatewayDependencies, 'memory'>>(async (app, { memory }) => {
  const capacity =
    memory?.answers ?? Math.max(getHeapStatistics().heap_size_limit / BUDGET_PART, MIN_BUDGET_BYTES);
  const budget = new FairBudget({ capacity, largestShare: LARGEST_SHARE });

  app.decorate('holdAnswer', (request, reply) => {
    const permit = budget.open(ownersOf(request), {
      mayEnd: () => reply.raw.headersSent,
      onEnded: () => reply.raw.destroy(),
    });
    reply.raw.once('close', permit.release);
    return {
      resize(bytes) {
        if (bytes > UNCOUNTED_BYTES && !permit.resize(bytes))
          throw unavailable({}, new Error('the memory for answers is used up'));
      },
    };
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    const isText = typeof payload === 'string' || Buffer.isBuffer(payload);
    if (!isText || payload.length <= UNCOUNTED_BYTES || request.method !== 'GET') return done(null, payload);
    try {
      app.holdAnswer(request, reply).resize(payload.length);
      done(null, payload);
    } catch (error) {
      done(error as Error);
    }
  });
});
