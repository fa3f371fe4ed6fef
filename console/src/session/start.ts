import { signInByLink, takeSecret } from './development-link.ts';
import { type Issuer, readServerConfig } from './server-config.ts';
import { hasSignedOut, nobodySignedIn, serverUnreachable, sessionStatus, signedIn } from './session.ts';

/** Time after which the page shows the ways to sign in, while the issuers are still asked, ms. */
const SHOW_SIGN_IN_AFTER_MS = 2_000;

/** Signs in without asking the person, if the link, a session of this browser or an issuer allows it. */
export async function startSession(): Promise<void> {
  const secret = takeSecret();
  try {
    const { issuers, hasDevelopmentLink } = await readServerConfig();
    if (hasDevelopmentLink && (await signInByLink(secret))) return;
    if (issuers.length > 0 && !hasSignedOut()) await signInSilently(issuers);
    if (sessionStatus() === 'starting') nobodySignedIn();
  } catch {
    serverUnreachable();
  }
}

/** At the first issuer at which the person has a session. */
async function signInSilently(issuers: readonly Issuer[]): Promise<void> {
  const impatience = setTimeout(nobodySignedIn, SHOW_SIGN_IN_AFTER_MS);
  const { OidcSignIn } = await import('./oidc.ts');
  await Promise.all(
    issuers.map(async (issuer) => {
      const signIn = await new OidcSignIn(issuer).silently().catch(() => undefined);
      const isFirst = sessionStatus() === 'starting' || sessionStatus() === 'signed-out';
      if (signIn !== undefined && isFirst && !hasSignedOut()) signedIn(signIn.credentials, signIn.source);
    }),
  );
  clearTimeout(impatience);
}
