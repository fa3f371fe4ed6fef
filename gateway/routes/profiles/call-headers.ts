import { CLIENT_KEY_SCOPES, type ClientKeyScope, readScopes } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';

/** What a call says of itself beside its credential. */
export interface CallHeaders {
  /** What the call wants to be allowed, at most. */
  readonly scopes: readonly ClientKeyScope[];
  /** The organization it is about; there with every ID token. */
  readonly orgId: number | undefined;
}

const INTEGER = /^\d{1,15}$/;

/** 400 without `scopes`, with one there is not, with an `orgId` that is no number, and with an ID token without one. */
export function readCallHeaders({
  headers,
  caller,
}: Pick<FastifyRequest, 'headers' | 'caller'>): CallHeaders {
  const { scopes: scopesText, orgid: orgText } = headers;
  const faults: ErrorDetail[] = [];
  const scopes = typeof scopesText === 'string' ? readScopes(scopesText) : undefined;
  if (scopesText === undefined) faults.push({ path: 'scopes', message: 'is required' });
  else if (scopes === undefined)
    faults.push({ path: 'scopes', message: `must be a list of ${CLIENT_KEY_SCOPES.join(', ')}` });
  if (orgText === undefined) {
    if (caller.kind === 'id_token') faults.push({ path: 'orgId', message: 'is required with an ID token' });
  } else if (typeof orgText !== 'string' || !INTEGER.test(orgText)) {
    faults.push({ path: 'orgId', message: 'must be an integer' });
  }
  if (faults.length > 0) throw invalidRequest(...faults);
  return { scopes: scopes ?? [], orgId: orgText === undefined ? undefined : Number(orgText) };
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set on every route of the profile API. */
    callHeaders: CallHeaders;
  }
}
