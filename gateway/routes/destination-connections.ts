import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type Connection,
  type Destination,
  GRANT_WITHIN_MS,
  isClaimed,
  iso,
  nameId,
  type ServiceTokens,
  Unavailable,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { accountOf } from '../authentication/caller.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import { conflict, invalidRequest } from '../errors/api-error.ts';
import { entityOf, type Proposal, propose } from '../resources/catalog-entities.ts';
import { boolean, closed, noBody, nullable, oneOf, operation, string, time } from '../resources/schemas.ts';

/** Where services send a browser back to: a page of the console, see `callbackPage`. */
const CONNECTED_PATH = '/console/connected';

/** How long a person may take at the service, ms. */
const BEGUN_FOR_MS = 10 * 60_000;
/** How often, ms, a claim of another process is looked at. */
const LOOK_EVERY_MS = 100;
/** How often a change is repeated that lost against a claim. */
const MAX_TRIES = 5;

export const connectionResource = nullable(
  Type.Object(
    {
      service: string('The service that it is connected with.'),
      state: oneOf(['connected', 'disconnected']),
      at: nullable(time),
      by: nullable(string('Who connected or disconnected it; null: nobody yet.')),
    },
    { description: 'Null for types that need no account at a service.' },
  ),
);

export function presentConnection({ connection }: Destination, service: string | undefined) {
  if (service === undefined) return null;
  const { state = 'disconnected', at = null, by = null } = connection ?? {};
  return { service, state, at, by };
}

const begun = Type.Object(
  {
    authorize_url: string('The page of the service, to be opened in a browser.'),
    state: string('In the address that the service sends the browser back to.'),
    redirect_uri: string('That address, as the client at the service must have it.'),
    expires_at: time,
  },
  { title: 'BegunConnection' },
);

const completion = closed(
  {
    callback_url: Type.String({
      minLength: 1,
      maxLength: 8_192,
      description: 'The address that the service sent the browser back to, whole.',
    }),
  },
  {
    title: 'ConnectionCompletion',
    examples: [{ callback_url: 'https://events.example.com/console/connected?code=4%2F0Ab&state=k1.f3' }],
  },
);

const disconnection = Type.Object(
  {
    state: oneOf(['disconnected']),
    revoked: boolean('Whether the service took back the tokens.'),
  },
  { title: 'Disconnection' },
);

/** A connection that a person began: sealed in `state`, so that it reads nobody and fits nowhere else. */
interface Begun {
  readonly account: string;
  /** See `stageOf`. */
  readonly stage: string;
  readonly verifier: string;
  readonly redirectUri: string;
  /** Epoch ms. */
  readonly until: number;
}

const INVALID_STATE = {
  path: '/callback_url',
  message: 'has no state of this destination and caller that is still valid: begin again',
};

interface Options {
  readonly dependencies: GatewayDependencies;
  readonly resource: ReturnType<typeof Type.Object>;
  present(destination: Destination): object;
}

const path = '/workspaces/:workspaceId/destinations/:destinationId/connection';

/** Connects destinations with an account at their service: OAuth 2 by authorization code, with PKCE where the service has it. */
export const connectionRoutes: FastifyPluginAsyncTypebox<Options> = async (
  app,
  { dependencies, resource, present },
) => {
  const { connectors, grants, clock, random, sealBegun, sealTokens } = dependencies;
  const named = (request: FastifyRequest) => {
    const destination = entityOf(request, dependencies, 'destination');
    if (connectors.descriptions.get(destination.type)?.service === undefined) throw conflict('no_service');
    return destination;
  };

  app.post(
    path,
    operation('destinations.connect', 'beginConnection', 'Begin to connect a destination with its service', {
      body: noBody,
      response: { 200: begun },
    }),
    async (request) => {
      const destination = named(request);
      if (dependencies.isUpgradePending?.() === true) throw conflict('upgrade_pending');
      const until = clock() + BEGUN_FOR_MS;
      const redirectUri = `${originOf(request)}${CONNECTED_PATH}`;
      const verifier = Buffer.from(random(32)).toString('base64url');
      const account = accountOf(request.caller);
      const state = sealBegun(destination.id, {
        account,
        stage: stageOf(destination),
        verifier,
        redirectUri,
        until,
      });
      const authorize_url = grants.authorizeUrl(destination, { redirectUri, state, verifier });
      return { authorize_url, state, redirect_uri: redirectUri, expires_at: iso(until) };
    },
  );

  app.post(
    `${path}/completion`,
    operation(
      'destinations.connect',
      'completeConnection',
      'Connect a destination with the answer of its service',
      { body: completion, response: { 200: resource } },
    ),
    async (request) => {
      const callback = URL.parse(request.body.callback_url)?.searchParams;
      const state = callback?.get('state') ?? '';
      const destination = named(request);
      const found = begunIn(request, destination, state);
      if (callback === undefined || found === undefined) throw invalidRequest(INVALID_STATE);
      const { redirectUri, verifier } = found;
      const turns = await claim(request, destination.id, state);
      const result = await grants.exchange(destination, { callback, redirectUri, verifier });
      if (result.kind !== 'granted')
        await propose(request, dependencies, claimOf(destination.id, state, turns, true));
      if (result.kind === 'failed') throw new Unavailable(result.reason);
      if (result.kind === 'refused')
        throw invalidRequest({ path: '/callback_url', message: `is refused: ${result.reason}` });
      const { tokens, settings } = result.grant;
      await propose(request, dependencies, {
        type: 'destination.connected',
        entity: destination.id,
        expected_version: turns,
        data: { tokens: sealTokens(destination.id, tokens), settings },
      });
      return present(named(request)) as never;
    },
  );

  app.delete(
    path,
    operation('destinations.connect', 'disconnectDestination', 'Disconnect a destination from its service', {
      response: { 200: disconnection },
    }),
    async (request) => {
      for (let tries = 1; ; tries++) {
        const destination = named(request);
        const { connection } = destination;
        if (connection?.state !== 'connected') return { state: 'disconnected' as const, revoked: false };
        const tokens = tokensOf(dependencies, destination);
        try {
          await propose(request, dependencies, {
            type: 'destination.disconnected',
            entity: destination.id,
            expected_version: connection.turns,
            data: {},
          });
        } catch (error) {
          // Its tokens were refreshed meanwhile.
          if (turnsOf(named(request)) === connection.turns || tries === MAX_TRIES) throw error;
          continue;
        }
        const revoked = tokens !== undefined && (await grants.revoke(destination, tokens));
        return { state: 'disconnected' as const, revoked };
      }
    },
  );

  /** Undefined for a state of another destination, person or time, and for one that was used. */
  function begunIn(request: FastifyRequest, destination: Destination, state: string) {
    const opened = dependencies.openBegun(destination.id, state) as unknown as Begun | undefined;
    if (opened === undefined || opened.until < clock()) return undefined;
    const isOfCaller = opened.account === accountOf(request.caller);
    const claimed = destination.connection?.claim?.id;
    const isUsed = opened.stage !== stageOf(destination) || claimed === claimId(state);
    return isOfCaller && !isUsed ? opened : undefined;
  }

  /** Excludes others from the tokens, and further uses of the state. Returns the number of changes for the next one. */
  async function claim(request: FastifyRequest, id: string, state: string): Promise<number> {
    const until = clock() + GRANT_WITHIN_MS;
    for (let tries = 1; ; ) {
      const destination = named(request);
      if (begunIn(request, destination, state) === undefined) throw invalidRequest(INVALID_STATE);
      const turns = turnsOf(destination);
      if (!isClaimed(destination.connection ?? {}, clock())) {
        try {
          await propose(request, dependencies, claimOf(id, state, turns));
          return turns + 1;
        } catch (error) {
          if (turnsOf(named(request)) === turns || tries++ === MAX_TRIES) throw error;
        }
      } else if (clock() > until) throw new Unavailable('the tokens of the destination are being refreshed');
      await sleep(LOOK_EVERY_MS);
    }
  }

  /** Where browsers reach the gateway. Without a setting, only this machine's own is taken from a request. */
  function originOf({ protocol, host, hostname }: FastifyRequest): string {
    if (dependencies.publicUrl !== undefined) return new URL(dependencies.publicUrl).origin;
    if (['localhost', '127.0.0.1', '::1', '[::1]'].includes(hostname)) return `${protocol}://${host}`;
    throw conflict('no_public_url');
  }
};

/** Takes back the tokens of a destination that was deleted; as far as its service answers. */
export async function revokeTokens(
  dependencies: GatewayDependencies,
  destination: Destination,
): Promise<void> {
  const tokens = tokensOf(dependencies, destination);
  if (tokens === undefined) return;
  if (await dependencies.grants.revoke(destination, tokens)) return;
  const { id, type } = destination;
  dependencies.logger.warn(
    { destination: id, type },
    'the service did not revoke the tokens of a destination',
  );
}

/** Undefined also where no key opens them. */
function tokensOf({ openTokens }: GatewayDependencies, destination: Destination): ServiceTokens | undefined {
  try {
    return openTokens(destination);
  } catch {
    return undefined;
  }
}

/**
 * The stage of a connection that a state is good for: until the next attempt, or until another account is connected where one
 * is, as refreshes do not end it.
 */
function stageOf({ connection }: Destination): string {
  const { state, at = '', turns = 0 } = connection ?? {};
  return state === 'connected' ? at : String(turns);
}

function turnsOf({ connection }: { readonly connection?: Connection }): number {
  return connection?.turns ?? 0;
}

function claimOf(id: string, state: string, turns: number, isEnded = false): Proposal {
  const data = { id: claimId(state), ...(isEnded && { ended: true as const }) };
  return { type: 'connection.claimed', entity: id, expected_version: turns, data };
}

function claimId(state: string): string {
  return nameId('connection', state);
}
