import {
  CREDENTIAL_KINDS,
  type CredentialKind,
  type FoundKey,
  type OrganizationRole,
  type Permission,
  parseKey,
  type WorkspaceRole,
} from '@tributary/core';
import { decodeJwt } from 'jose';
import type { Challenge } from '../errors/api-error.ts';
import type { Caller } from './caller.ts';
import { KEY_START } from './credentials.ts';
import { MAX_TOKEN_AGE_SECONDS } from './id-tokens.ts';

/*
 * The reasons of 401 and 403. A reason states what the request itself says, what its credential proves, or what the
 * permission table says. Of a workspace or organization that the caller has no access to it states nothing: a foreign
 * one, an archived one and one that does not exist have the same reason.
 */

const KINDS: Readonly<Record<CredentialKind, string>> = {
  id_token: 'an ID token',
  api_key: 'an API key',
  write_key: 'a write key',
  client_key: 'a client key',
};

/** The kinds of credential that a call takes, in words. */
export function kindsOf({ credentials }: Pick<Permission, 'credentials'>): string {
  return CREDENTIAL_KINDS.filter((kind) => credentials.includes(kind))
    .map((kind) => KINDS[kind])
    .join(' or ');
}

/** The part of a request that a credential is read from. */
interface CredentialHeaders {
  readonly authorization?: string | undefined;
  readonly apikey?: string | readonly string[] | undefined;
}

/** Why a request without a readable credential is refused. */
export function missingCredential(headers: CredentialHeaders, permission: Permission): Challenge {
  const takes = `this call takes ${kindsOf(permission)}`;
  if (permission.scope !== undefined && headers.apikey !== undefined)
    return { error: 'invalid_token', reason: `the header apikey holds no key: keys begin with ${KEY_START}` };
  if (headers.authorization !== undefined)
    return {
      error: 'invalid_token',
      reason: `the header Authorization does not have the form Bearer <credential>; ${takes}`,
    };
  return { reason: `no credential; ${takes}` };
}

/**
 * Why a credential that was read is refused. The holder of a whole key is told the state of the key; `found` is the
 * key of its hash. The reason for an ID token depends on its own claims alone, before and without its signature.
 */
export function refusedCredential(token: string, found: FoundKey | undefined, now: number): Challenge {
  return { error: 'invalid_token', reason: refusedBecause(token, found, now) };
}

function refusedBecause(token: string, found: FoundKey | undefined, now: number): string {
  if (!token.startsWith(KEY_START)) return refusedToken(token, now);
  if (parseKey(token) === undefined) return 'the key is not complete or has a typing error';
  if (found === undefined) return 'unknown key';
  return found.key.status === 'revoked' ? 'the key is revoked' : 'the key has expired';
}

function refusedToken(token: string, now: number): string {
  try {
    const { exp, iat } = decodeJwt(token);
    const endOfAge = iat === undefined ? Infinity : iat + MAX_TOKEN_AGE_SECONDS;
    if (Math.min(exp ?? Infinity, endOfAge) * 1000 < now) return 'the ID token has expired';
  } catch {
    return `neither a key, which begins with ${KEY_START}, nor an ID token`;
  }
  return 'the ID token is not valid here: its issuer, signature, audience or another claim is not accepted';
}

export function wrongKind({ kind }: Caller, permission: Permission): string {
  return `this call takes ${kindsOf(permission)}, not ${KINDS[kind]}`;
}

export const NO_WORKSPACE = 'the credential has no access to this workspace';
export const NO_ORGANIZATION = 'the credential has no access to this organization';
export const BY_ADMIN_OF_ORGANIZATION = 'an ID token with the role admin in the organization is needed';
export const FOR_OPERATORS = 'this call is for operators of the installation, whom its settings name';

export function roleTooLow(needed: WorkspaceRole, role: WorkspaceRole | undefined): string {
  return `the role ${needed} in the workspace is missing${role === undefined ? '' : `; the credential has ${role}`}`;
}

export function organizationRoleTooLow(needed: OrganizationRole, role?: OrganizationRole): string {
  return `the role ${needed} in the organization is missing${role === undefined ? '' : `; the account has ${role}`}`;
}
