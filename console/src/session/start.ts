import { signInByLink, takeSecret } from './development-link.ts';
import { readServerConfig } from './server-config.ts';
import { nobodySignedIn } from './session.ts';

/** Signs in without asking, if the link, a session of this browser or an issuer lets it. */
export async function startSession(): Promise<void> {
  const secret = takeSecret();
  const config = await readServerConfig();
  if (config.hasDevelopmentLink) await signInByLink(secret);
  else nobodySignedIn();
}
