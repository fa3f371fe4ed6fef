import { type CatalogView, iso, nameId, type ParsedKey, parseKey } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import type { Caller } from '../http/caller.ts';
import { notAuthenticated } from '../http/errors.ts';
import type { Identity } from '../identity/identity.ts';

/** A key this process has not heard of may have been made a moment ago elsewhere: wait this long for the catalog. */
const CATCH_UP_MS = 250;
const BEARER = /^Bearer +([^\s]+) *$/i;

type AuthenticationDependencies = Pick<GatewayDependencies, 'catalog' | 'identity' | 'clock' | 'logger'>;

/** Verifies the bearer credential; 401 for anything that is missing, malformed, expired, revoked or unknown. */
export async function authenticate(
  request: FastifyRequest,
  dependencies: AuthenticationDependencies,
): Promise<Caller> {
  const token = BEARER.exec(request.headers.authorization ?? '')?.[1];
  if (token === undefined) throw notAuthenticated();
  if (token.startsWith('trb_')) {
    const parsed = parseKey(token);
    if (parsed === undefined) throw notAuthenticated();
    const { catalog } = dependencies;
    const caller = callerOfKey(catalog.state, parsed) ?? (await callerOfNewKey(parsed, dependencies));
    if (caller === undefined || caller.key.status !== 'active') throw notAuthenticated();
    return caller;
  }
  const identity = await dependencies.identity.verify(token);
  if (identity === undefined) throw notAuthenticated();
  return { kind: 'id_token', account: await provisionAccount(identity, request, dependencies) };
}

function callerOfKey(state: CatalogView, parsed: ParsedKey): Extract<Caller, { key: unknown }> | undefined {
  return state.keyByHash(parsed.hash);
}

async function callerOfNewKey(parsed: ParsedKey, { catalog, logger }: AuthenticationDependencies) {
  try {
    await catalog.catchUp(CATCH_UP_MS);
  } catch (error) {
    logger.warn({ error: String(error) }, 'the catalog did not catch up while an unknown key waited');
  }
  return callerOfKey(catalog.state, parsed);
}

/** The account of an identity, created at its first sign-in. Its id is derived, so two gateways create the same one. */
async function provisionAccount(
  identity: Identity,
  request: FastifyRequest,
  { catalog, clock }: AuthenticationDependencies,
) {
  const id = nameId('account', identity.issuer, identity.subject);
  const known = catalog.state.account(id);
  if (known !== undefined) return known;
  await catalog.propose({
    v: 1,
    type: 'account.created',
    entity: id,
    expected_version: 0,
    data: { id, issuer: identity.issuer, subject: identity.subject, email: identity.email },
    by: id,
    from: { address: request.ip, request_id: request.id },
    at: iso(clock()),
  });
  const created = catalog.state.account(id);
  if (created === undefined) throw notAuthenticated();
  return created;
}
