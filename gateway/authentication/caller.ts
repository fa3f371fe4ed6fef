import {
  type Account,
  type CatalogView,
  CREDENTIAL_KINDS,
  type CredentialKind,
  type FoundKey,
  includesOrganizationRole,
  type Operation,
  type Organization,
  type OrganizationRole,
  type Permission,
  parseKey,
  type Workspace,
  type WorkspaceRole,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { decodeJwt } from 'jose';
import type { Challenge } from '../errors/api-error.ts';
import { MAX_TOKEN_AGE_SECONDS } from './id-tokens.ts';

export type Caller =
  | {
      readonly kind: 'id_token';
      readonly account: Account;
      /** Epoch ms. */
      readonly expiresAt: number;
      /** The profile API scopes of the token; absent when it has none. */
      readonly profileScopes?: readonly string[];
    }
  | FoundKey;

export function authorOf(caller: Caller): string {
  return caller.kind === 'id_token' ? caller.account.id : `key:${caller.key.id}`;
}

/** The account of a caller; for a key, the account that created it. */
export function accountOf(caller: Caller): string {
  return caller.kind === 'id_token' ? caller.account.id : caller.key.created_by;
}

/** Whether the caller uses an ID token and is an admin or owner of the organization. */
export function administersOrganization(
  caller: Caller,
  organizationId: string,
  state: Pick<CatalogView, 'organizationRole'>,
): boolean {
  if (caller.kind !== 'id_token') return false;
  const role = state.organizationRole(caller.account.id, organizationId);
  return role !== undefined && includesOrganizationRole(role, 'admin');
}

/** Whether the caller is one of the people whom the configuration names, by an address that an issuer verified. */
export function isOperator(caller: Caller, operators: ReadonlySet<string>): boolean {
  if (caller.kind !== 'id_token') return false;
  const { email } = caller.account;
  return email !== null && operators.has(email);
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set on every route that is not public. */
    caller: Caller;
    /** Set on every route below `/workspaces/:id`. */
    workspace: Workspace;
    /** The caller's role in `workspace`; a write key has none. */
    role: WorkspaceRole | undefined;
    /** Set on every route below `/organizations/:id`. */
    organization: Organization;
    /** The caller's role in `organization`. */
    organizationRole: OrganizationRole;
  }
  interface FastifyContextConfig {
    /** The operation of the route in the permission table. A route without one stops the gateway from starting. */
    operation?: Operation;
    /** Called by SDKs made for Segment or RudderStack, which send their credential and read errors in a form of their own. */
    sdk?: true;
    /** The path has the write key; headers hold none, as they belong to another service. */
    credentialIn?: 'path';
  }
}

/** The prefix of every key; no ID token has it. */
export const KEY_START = 'trb_';
const BEARER = /^Bearer +([^\s]+) *$/i;

export function bearerOf({ headers }: FastifyRequest): string | undefined {
  return BEARER.exec(headers.authorization ?? '')?.[1];
}

/**
 * The credential of a profile API request. The header `apikey` takes precedence over a bearer token, also when it holds
 * no key: a request is never authenticated by a credential that its sender did not mean.
 */
export function keyOrBearerOf(request: FastifyRequest): string | undefined {
  const { apikey } = request.headers;
  if (apikey === undefined) return bearerOf(request);
  return typeof apikey === 'string' && apikey.startsWith(KEY_START) ? apikey : undefined;
}

/**
 * The write key of an SDK made for Segment or RudderStack: the user of `Basic`, a bearer token, in the path or query (for
 * loading settings, and for `sendBeacon`, which cannot set headers), or in the body. A header takes precedence.
 */
export function sdkCredentialOf(request: FastifyRequest): string | undefined {
  const { authorization } = request.headers;
  return authorization === undefined ? keyInAddress(request) : (bearerOf(request) ?? userOf(authorization));
}

export function namesCredential(request: FastifyRequest): boolean {
  return request.headers.authorization !== undefined || keyInAddress(request) !== undefined;
}

export function keyInBody({ body }: FastifyRequest): string | undefined {
  return textIn(body, 'writeKey');
}

/** A key at any place in JSON text. Keys consist of characters that need no escape. */
const KEY_IN_TEXT = /"writeKey"\s*:\s*"(trb_\w{1,64})"/g;
/** Candidates that are checked of one body. */
const MAX_KEYS_IN_TEXT = 4;

/** The first candidates for the key that `keyInBody` finds once the body is parsed. */
export function keysInText(text: Buffer): readonly string[] {
  const keys = new Set<string>();
  for (const [, key = ''] of text.toString('latin1').matchAll(KEY_IN_TEXT)) {
    keys.add(key);
    if (keys.size === MAX_KEYS_IN_TEXT) break;
  }
  return [...keys];
}

function keyInAddress(request: FastifyRequest): string | undefined {
  return keyInPath(request) ?? textIn(request.query, 'writeKey');
}

export function keyInPath({ params }: FastifyRequest): string | undefined {
  return textIn(params, 'writeKey');
}

const BASIC = /^Basic +([A-Za-z0-9+/_-]+={0,2}) *$/i;

/** The user name of `Basic`; the password is ignored. */
function userOf(authorization: string): string | undefined {
  const encoded = BASIC.exec(authorization)?.[1];
  if (encoded === undefined) return undefined;
  const [user] = Buffer.from(encoded, 'base64').toString('utf8').split(':', 1);
  return user;
}

function textIn(fields: unknown, name: string): string | undefined {
  if (typeof fields !== 'object' || fields === null || !Object.hasOwn(fields, name)) return undefined;
  const value = (fields as Readonly<Record<string, unknown>>)[name];
  return typeof value === 'string' ? value : undefined;
}

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

function kindsOf({ credentials }: Pick<Permission, 'credentials'>): string {
  return CREDENTIAL_KINDS.filter((kind) => credentials.includes(kind))
    .map((kind) => KINDS[kind])
    .join(' or ');
}

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

export const FOR_WEBHOOKS = 'the write key was created for webhooks alone';

export function roleTooLow(needed: WorkspaceRole, role: WorkspaceRole | undefined): string {
  return `the role ${needed} in the workspace is missing${role === undefined ? '' : `; the credential has ${role}`}`;
}

export function organizationRoleTooLow(needed: OrganizationRole, role?: OrganizationRole): string {
  return `the role ${needed} in the organization is missing${role === undefined ? '' : `; the account has ${role}`}`;
}
