import { useSyncExternalStore } from 'react';
import { ApiError } from '../api/errors.ts';
import { claimsOf } from './claims.ts';

/** Credentials of the signed-in person. They live in memory alone: a reload asks the gateway or the issuer again. */
export interface Credentials {
  readonly token: string;
  /** ms since the epoch. */
  readonly expiresAt: number;
}

/** Where credentials come from: the development link, or an OIDC issuer. */
export interface CredentialSource {
  /** New credentials without asking the person; undefined if they have to sign in again. */
  renew(): Promise<Credentials | undefined>;
  /** Resolves to the address at which the session at the issuer can be ended as well, if it has one. */
  signOut(): Promise<string | undefined>;
}

/**
 * `expired`: the session of a signed-in person has ended. Pages keep their input, and a dialog over them asks the person
 * to sign in again.
 */
export type SessionStatus = 'starting' | 'unreachable' | 'signed-out' | 'signed-in' | 'expired';

/** Credentials are renewed this long before they expire, ms. */
const RENEW_BEFORE_MS = 120_000;

interface State {
  readonly status: SessionStatus;
  readonly credentials?: Credentials;
  readonly source?: CredentialSource;
  /** Address that ends the session at the issuer; set after signing out. */
  readonly issuerSignOutUrl?: string;
}

let state: State = { status: 'starting' };
let renewal: Promise<void> | undefined;
const listeners = new Set<() => void>();

export function useSessionStatus(): SessionStatus {
  return useSyncExternalStore(onSessionChange, () => state.status);
}

export function signedIn(credentials: Credentials, source: CredentialSource): void {
  update({ status: 'signed-in', credentials, source });
}

/** Ends the start of the page without credentials. */
export function nobodySignedIn(): void {
  update({ status: 'signed-out' });
}

/** The gateway's configuration of the sign-in could not be read. */
export function serverUnreachable(): void {
  update({ status: 'unreachable' });
}

/** The person must sign in again. Without effect unless a person is signed in. */
export function sessionEnded(): void {
  if (state.status === 'signed-in') update({ ...state, status: 'expired' });
}

/** Query of the address after signing out: the issuers are then not asked silently. */
const SIGNED_OUT = '?signed-out';

export async function signOut(): Promise<void> {
  const { source } = state;
  history.replaceState(null, '', `/console/${SIGNED_OUT}`);
  update({ status: 'signed-out' });
  const issuerSignOutUrl = await source?.signOut().catch(() => undefined);
  if (issuerSignOutUrl !== undefined && state.status === 'signed-out')
    update({ status: 'signed-out', issuerSignOutUrl });
}

export function hasSignedOut(): boolean {
  return location.search === SIGNED_OUT;
}

export function useIssuerSignOutUrl(): string | undefined {
  return useSyncExternalStore(onSessionChange, () => state.issuerSignOutUrl);
}

/**
 * The token for a call; renewed first when it is about to expire. After the session has expired, calls wait until the
 * person has signed in again. Rejects where nobody is signed in: such a call is not sent.
 */
export async function bearer(): Promise<string> {
  const { credentials } = state;
  if (credentials !== undefined && credentials.expiresAt - Date.now() < RENEW_BEFORE_MS) await renew();
  if (state.status === 'expired') await untilSignedIn();
  if (state.credentials === undefined) throw new ApiError('You are signed out.', { status: 401 });
  return state.credentials.token;
}

/**
 * After the API has refused a token: renews it, or waits until the person has signed in again. Resolves to whether a call
 * may be sent again.
 */
export async function afterRefusal(refused: string): Promise<boolean> {
  if (state.credentials?.token === refused && state.status === 'signed-in') await renew();
  if (state.credentials?.token === refused) sessionEnded();
  if (state.status === 'expired') await untilSignedIn();
  return state.status === 'signed-in';
}

/** One renewal at a time, however many calls need it. */
function renew(): Promise<void> {
  renewal ??= tryRenewal().finally(() => {
    renewal = undefined;
  });
  return renewal;
}

async function tryRenewal(): Promise<void> {
  const { credentials, source } = state;
  const renewed = await source?.renew().catch(() => undefined); // the old credentials are used until they expire
  if (state.source !== source) return; // signed out, or in again, meanwhile
  if (renewed !== undefined && source !== undefined) signedIn(renewed, source);
  else if (credentials !== undefined && credentials.expiresAt <= Date.now()) sessionEnded();
}

/** Resolves once the person has signed in again, or out. */
function untilSignedIn(): Promise<void> {
  return new Promise((resolve) => {
    const stop = onSessionChange(() => {
      if (state.status === 'expired') return;
      stop();
      resolve();
    });
  });
}

function update(next: State): void {
  state = next;
  for (const listener of [...listeners]) listener();
}

/** Calls back after each change; returns a function that unsubscribes. */
export function onSessionChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function sessionStatus(): SessionStatus {
  return state.status;
}

/** The person of the session, by the claims of the token; undefined while nobody is signed in. */
export function signedInSubject(): string | undefined {
  const { credentials } = state;
  if (credentials === undefined) return undefined;
  const { iss, sub } = claimsOf(credentials.token);
  return `${iss} ${sub}`;
}
