import { getHeapStatistics } from 'node:v8';
import { FairBudget, Overloaded, type Permit } from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { GatewayDependencies } from '../dependencies.ts';
import { unavailable } from '../errors/api-error.ts';
import { ownersByAddress } from '../server/client-address.ts';
import { addressGroup } from '../server/ip-address.ts';

/** So much of each answer is not counted, as of each body. */
const UNCOUNTED_BYTES = 16 * 1024;
/** Part of the heap that all answers take that wait to be read. */
const BUDGET_PART = 16;
const MIN_BUDGET_BYTES = 64 * 1024 * 1024;
const LARGEST_SHARE = 3 / 4;

/** The memory of one answer. */
interface HeldAnswer {
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

/** Below the 64 MiB that logs and stores take before they refuse everybody. */
const MAX_UNCONFIRMED_BYTES = 48 * 1024 * 1024;
/** Nothing that was handed over can be ended, so enough is left for workspaces that come later. */
const LARGEST_UNCONFIRMED_SHARE = 1 / 2;

/** Bytes handed to a log or a store that are not confirmed yet, divided fairly between their owners. */
export class UnconfirmedBytes {
  readonly #budget = new FairBudget({
    capacity: MAX_UNCONFIRMED_BYTES,
    largestShare: LARGEST_UNCONFIRMED_SHARE,
  });

  /** Counts `bytes` until they are released. `Overloaded`, and nothing counts, where the owner holds its share. */
  take(owners: readonly string[], bytes: number): Permit {
    const permit = this.#budget.open(owners);
    if (!permit.resize(bytes))
      throw new Overloaded(`${owners.join(' ')} waits for all it may to be made durable`);
    return permit;
  }
}

/**
 * The owners that a request counts for in a `FairBudget`, outermost first. Behind one key there may be an attacker and
 * honest browsers, as write keys of web pages are public, so a key's share is divided by address. Ids are names as they
 * are: a text made for each request would have to be hashed anew.
 */
export function ownersOf(request: FastifyRequest): readonly string[] {
  const { caller, clientAddress } = request;
  if (!isAuthenticated(request)) return ownersByAddress(clientAddress);
  if (caller.kind === 'id_token') return [caller.account.id];
  const inside = [caller.key.id, addressGroup(clientAddress)];
  if (caller.kind === 'client_key') return [caller.key.organization_id, ...inside];
  return [...workspaceOwners(request, caller.key.workspace_id), ...inside];
}

/** Those of a workspace's events and changes, whichever of its keys they came by. */
export function workspaceOwners({ workspace }: FastifyRequest, workspaceId: string): readonly string[] {
  const known = workspace as FastifyRequest['workspace'] | undefined;
  return known === undefined ? [workspaceId] : [known.organization_id, workspaceId];
}

/** False while nobody has shown a good credential. */
export function isAuthenticated({ caller }: { readonly caller?: unknown }): boolean {
  return caller !== undefined;
}
