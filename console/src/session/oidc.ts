import { InMemoryWebStorage, OidcClient, type SigninResponse, WebStorageStateStore } from 'oidc-client-ts';
import { callbackOf, openWindow } from './callback.ts';
import { claimsOf } from './claims.ts';
import type { Issuer } from './server-config.ts';
import type { CredentialSource, Credentials } from './session.ts';

/** Time for an issuer to answer without asking the person, ms. */
const SILENT_TIMEOUT_MS = 10_000;

/** The result of a sign-in. */
interface SignIn {
  readonly credentials: Credentials;
  readonly source: CredentialSource;
}

/**
 * Signs in at one issuer: authorization code with PKCE. The bearer of the API is the ID token; the access token is not used.
 * Codes, verifiers and tokens are in memory alone.
 */
export class OidcSignIn {
  readonly #client: OidcClient;
  #last: SigninResponse | undefined;

  constructor({ issuer, clientId }: Issuer) {
    this.#client = new OidcClient({
      authority: issuer,
      client_id: clientId,
      redirect_uri: new URL('/console/signed-in', location.origin).href,
      response_type: 'code',
      scope: 'openid email',
      loadUserInfo: false,
      stateStore: new WebStorageStateStore({ store: new InMemoryWebStorage() }),
    });
  }

  /** Asks the person in a window. Must be called while a click is handled: browsers block other windows. */
  async inWindow(signal: AbortSignal): Promise<SignIn> {
    const opened = openWindow();
    try {
      const { url, state } = await this.#client.createSigninRequest({});
      const answer = callbackOf(state.id, signal);
      opened.location = url;
      return await this.#finish(await answer);
    } catch (error) {
      opened.close();
      throw error;
    }
  }

  /**
   * Asks the issuer in a hidden frame. Undefined if it wants to ask the person, gets no cookies in frames, or does not
   * answer.
   */
  async silently(): Promise<SignIn | undefined> {
    const { url, state } = await this.#client.createSigninRequest({ prompt: 'none' });
    const frame = document.createElement('iframe');
    frame.hidden = true;
    frame.title = 'Sign-in';
    frame.src = url;
    const answer = callbackOf(state.id, AbortSignal.timeout(SILENT_TIMEOUT_MS));
    document.body.append(frame);
    try {
      return await this.#finish(await answer);
    } catch {
      return undefined;
    } finally {
      frame.remove();
    }
  }

  /** The address that ends the session at the issuer; undefined if the issuer has none. */
  async #signOutUrl(): Promise<string | undefined> {
    if ((await this.#client.metadataService.getEndSessionEndpoint()) === undefined) return undefined;
    const idToken = this.#last?.id_token;
    const { url } = await this.#client.createSignoutRequest(
      idToken === undefined ? {} : { id_token_hint: idToken },
    );
    return url;
  }

  async #renew(): Promise<Credentials | undefined> {
    const refreshed = await this.#refresh().catch(() => undefined); // e.g. the refresh token has expired
    return (refreshed ?? (await this.silently()))?.credentials;
  }

  /** Renews by the refresh token; undefined if the issuer gave none. */
  async #refresh(): Promise<SignIn | undefined> {
    if (this.#last?.refresh_token === undefined) return undefined;
    const { refresh_token, session_state, profile } = this.#last;
    const state = { refresh_token, session_state, profile };
    // biome-ignore lint/correctness/useHookAtTopLevel: a call of the OIDC client, no hook
    const response = await this.#client.useRefreshToken({ state });
    response.refresh_token ??= refresh_token;
    return this.#signIn(response);
  }

  async #finish(url: string): Promise<SignIn> {
    const signIn = this.#signIn(await this.#client.processSigninResponse(url));
    if (signIn === undefined) throw new Error('The issuer gave no ID token.');
    return signIn;
  }

  #signIn(response: SigninResponse): SignIn | undefined {
    if (response.id_token === undefined) return undefined;
    this.#last = response;
    return {
      credentials: { token: response.id_token, expiresAt: (claimsOf(response.id_token).exp ?? 0) * 1_000 },
      source: { renew: () => this.#renew(), signOut: () => this.#signOutUrl() },
    };
  }
}
