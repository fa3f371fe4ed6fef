import { getHeapStatistics } from 'node:v8';
import { FairBudget, Overloaded, type Permit } from '@tributary/core';
import type { FastifyRequest, onSendHookHandler } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { GatewayDependencies } from '../dependencies.ts';
import { unavailable } from '../errors/api-error.ts';
import { addressGroup, ownersByAddress } from '../server/addresses.ts';

/** Responses up to this size are not counted, as are bodies. */
const UNCOUNTED_BYTES = 16 * 1024;
/** The part of the heap (1/16) for responses that their clients have not read yet. */
const BUDGET_PART = 16;
const MIN_BUDGET_BYTES = 64 * 1024 * 1024;
const LARGEST_SHARE = 3 / 4;

interface ResponseMemory {
  /** Counts so many bytes until the client has read the response. 503 when the caller's share is used up. */
  resize(bytes: number): void;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** For a response that is sent in pieces; responses to `GET` that are sent as one text are counted automatically. */
    openResponseMemory(request: FastifyRequest, reply: FastifyReply): ResponseMemory;
  }
}

/**
 * Bounds the memory of large responses that their clients do not read. A client may read slowly until another caller
 * needs the memory; then the connections of the callers that hold the most are closed, the oldest first. Only responses to
 * `GET` are counted: those to changes are no larger than the request bodies, which are counted until the response.
 */
export const responseMemoryPlugin = fastifyPlugin<Pick<GatewayDependencies, 'memory'>>(
  async (app, { memory }) => {
    const capacity =
      memory?.answers ?? Math.max(getHeapStatistics().heap_size_limit / BUDGET_PART, MIN_BUDGET_BYTES);
    const budget = new FairBudget({ capacity, largestShare: LARGEST_SHARE });

    app.decorate('openResponseMemory', (request, reply) => {
      const permit = budget.open(ownersOf(request), {
        mayEnd: () => reply.raw.headersSent,
        onEnded: () => reply.raw.destroy(),
      });
      reply.raw.once('close', permit.release);
      return {
        resize(bytes) {
          if (bytes > UNCOUNTED_BYTES && !permit.resize(bytes))
            throw unavailable({}, new Error('the memory for responses is used up'));
        },
      };
    });
    const countResponse: onSendHookHandler = (request, reply, payload, done) => {
      const isText = typeof payload === 'string' || Buffer.isBuffer(payload);
      if (!isText || payload.length <= UNCOUNTED_BYTES || request.method !== 'GET')
        return done(null, payload);
      try {
        app.openResponseMemory(request, reply).resize(payload.length);
        done(null, payload);
      } catch (error) {
        done(error as Error);
      }
    };
    app.addHook('onRoute', (route) => {
      if ([route.method].flat().includes('GET'))
        route.onSend = [...[route.onSend ?? []].flat(), countResponse];
    });
  },
);

/** Below the 64 MiB above which logs and stores refuse all appends. */
const MAX_UNCONFIRMED_BYTES = 48 * 1024 * 1024;
/** Appends cannot be cancelled, so half of the remaining budget is left for workspaces that come later. */
const LARGEST_UNCONFIRMED_SHARE = 1 / 2;

/** The budget of bytes that a log or a store has not confirmed yet, divided fairly between owners. */
export class UnconfirmedBytes {
  readonly #budget = new FairBudget({
    capacity: MAX_UNCONFIRMED_BYTES,
    largestShare: LARGEST_UNCONFIRMED_SHARE,
  });

  /** Counts `bytes` until the permit is released. `Overloaded` when the owner's share is used up. */
  take(owners: readonly string[], bytes: number): Permit {
    const permit = this.#budget.open(owners);
    if (!permit.resize(bytes))
      throw new Overloaded(`the unconfirmed bytes of ${owners.join(' ')} have reached their share`);
    return permit;
  }
}

/**
 * The owners that a request counts for in a `FairBudget`, outermost first. Write keys of web pages are public, so an
 * attacker may share one with honest browsers: a key's share is divided by address. Ids are used as they are: a text built
 * per request would have to be hashed each time.
 */
export function ownersOf(request: FastifyRequest): readonly string[] {
  const { caller, clientAddress } = request;
  if (!isAuthenticated(request)) return ownersByAddress(clientAddress);
  if (caller.kind === 'id_token') return [caller.account.id];
  const inside = [caller.key.id, addressGroup(clientAddress)];
  if (caller.kind === 'client_key') return [caller.key.organization_id, ...inside];
  return [...workspaceOwners(request, caller.key.workspace_id), ...inside];
}

/** The owners of a workspace's events and changes, independent of the key. */
export function workspaceOwners({ workspace }: FastifyRequest, workspaceId: string): readonly string[] {
  const known = workspace as FastifyRequest['workspace'] | undefined;
  return known === undefined ? [workspaceId] : [known.organization_id, workspaceId];
}

/** False until the credential is verified. */
export function isAuthenticated({ caller }: { readonly caller?: unknown }): boolean {
  return caller !== undefined;
}
