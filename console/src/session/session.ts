import { useSyncExternalStore } from 'react';

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
  signOut(): Promise<void>;
}

/**
 * `expired`: the person was signed in. Pages stay as they are, with what was typed into them, and a dialog over them asks
 * to sign in again.
 */
export type SessionStatus = 'starting' | 'signed-out' | 'signed-in' | 'expired';

/** Credentials are renewed so long before they expire, ms. */
const RENEW_BEFORE_MS = 120_000;

interface State {
  readonly status: SessionStatus;
  readonly credentials?: Credentials;
  readonly source?: CredentialSource;
}

let state: State = { status: 'starting' };
let renewal: Promise<void> | undefined;
const listeners = new Set<() => void>();

export function useSessionStatus(): SessionStatus {
  return useSyncExternalStore(subscribe, () => state.status);
}

export function signedIn(credentials: Credentials, source: CredentialSource): void {
  update({ status: 'signed-in', credentials, source });
}

/** No credentials could be had at the start of the page. */
export function nobodySignedIn(): void {
  update({ status: 'signed-out' });
}

/** The API refuses the credentials. */
export function sessionEnded(): void {
  if (state.status === 'signed-in') update({ status: 'expired' });
}

export async function signOut(): Promise<void> {
  const { source } = state;
  update({ status: 'signed-out' });
  await source?.signOut();
}

/** The token for a call; renewed first when it is about to expire. */
export async function bearer(): Promise<string | undefined> {
  const { credentials } = state;
  if (credentials !== undefined && credentials.expiresAt - Date.now() < RENEW_BEFORE_MS) {
    renewal ??= renew().finally(() => {
      renewal = undefined;
    });
    await renewal;
  }
  return state.credentials?.token;
}

async function renew(): Promise<void> {
  const { credentials, source } = state;
  const renewed = await source?.renew().catch(() => undefined); // the old ones are used as long as they last
  if (renewed !== undefined && source !== undefined) signedIn(renewed, source);
  else if (credentials !== undefined && credentials.expiresAt <= Date.now()) sessionEnded();
}

function update(next: State): void {
  state = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
