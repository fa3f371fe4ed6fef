import { type CredentialSource, type Credentials, signedIn } from './session.ts';

/** The link that `npm start` prints: the secret of this start is in the fragment, which no server and no log sees. */
const SECRET = /^#secret=([\w-]+)$/;

/** Takes the secret of the link out of the address, so that it is in no bookmark and no history. */
export function takeSecret(): string | undefined {
  const secret = SECRET.exec(location.hash)?.[1];
  if (secret !== undefined) history.replaceState(null, '', location.pathname + location.search);
  return secret;
}

/**
 * Signs in by the link, or by the cookie that an earlier use of it left in this browser (HTTP only, of this start). Resolves
 * to whether that succeeded.
 */
export async function signInByLink(secret?: string): Promise<boolean> {
  const credentials = (secret && (await exchange(secret))) || (await exchange());
  if (credentials === undefined) return false;
  signedIn(credentials, LINK);
  return true;
}

const LINK: CredentialSource = {
  renew: () => exchange(),
  async signOut() {
    await fetch('/console/session', { method: 'DELETE' });
    return undefined;
  },
};

/** Exchanges the secret, or else the cookie, for credentials. Undefined where the gateway knows neither. */
async function exchange(secret?: string): Promise<Credentials | undefined> {
  const response = await fetch('/console/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(secret === undefined ? {} : { secret }),
  });
  if (response.status !== 200) return undefined;
  const { token, expires_at } = (await response.json()) as { token: string; expires_at: string };
  return { token, expiresAt: Date.parse(expires_at) };
}
