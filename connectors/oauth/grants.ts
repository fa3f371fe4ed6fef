import { createHash } from 'node:crypto';
import {
  GRANT_WITHIN_MS,
  type GrantResult,
  type JsonObject,
  objectIn,
  type ServiceGrants,
  type ServiceTokens,
} from '@tributary/core';
import type { Agent } from 'undici';
import { classifyFailure, httpClient, parseRetryAfter, sendRequest } from '../http/client.ts';
import type { ConnectorContext } from '../kind.ts';
import { isInvalidGrant, type OAuthClient, type Provider } from './providers.ts';

/** The service of a type of destination, and what is asked for. */
export interface Service {
  readonly provider: Provider;
  readonly client: OAuthClient;
  readonly scopes: readonly string[];
}

type Parameters = Readonly<Record<string, string>>;
type IsRefusal = (status: number, answer: JsonObject) => boolean;

/** Of one request; a long token takes two. */
const TIMEOUT_MS = GRANT_WITHIN_MS / 3;
const MAX_ANSWER_BYTES = 64 * 1_024;
/** An access token is renewed before it expires: by a tenth of its time, and at most by so many ms. */
const EARLY_PART = 0.1;
const EARLY_MS = 60_000;

/** `serviceOf`: undefined for a type that connects to none. */
export function createGrants(
  context: ConnectorContext,
  serviceOf: (type: string) => Service | undefined,
): ServiceGrants & { close(): Promise<void> } {
  const { clock } = context;
  let opened: Promise<Agent> | undefined;

  function serviceFor(type: string): Service {
    const service = serviceOf(type);
    if (service === undefined) throw new Error(`${type} connects to no service`);
    return service;
  }

  async function post({ provider, client }: Service, url: string, parameters: Parameters) {
    const { clientId = 'client_id', clientSecret = 'client_secret' } = provider.names ?? {};
    const isBasic = provider.clientProof === 'basic';
    const sent = isBasic
      ? parameters
      : { ...parameters, [clientId]: client.id, [clientSecret]: client.secret };
    const isJson = provider.body === 'json';
    const headers = {
      accept: 'application/json',
      'content-type': isJson ? 'application/json' : 'application/x-www-form-urlencoded',
      'user-agent': 'Tributary',
      ...(isBasic && {
        authorization: `Basic ${Buffer.from(`${client.id}:${client.secret}`).toString('base64')}`,
      }),
    };
    const body = isJson ? JSON.stringify(sent) : new URLSearchParams(sent).toString();
    opened ??= httpClient(context, MAX_ANSWER_BYTES).open();
    return sendRequest(
      await opened,
      { method: 'POST', url: new URL(url), headers: Object.entries(headers).flat(), body },
      AbortSignal.timeout(TIMEOUT_MS),
      MAX_ANSWER_BYTES,
    );
  }

  async function ask(
    service: Service,
    settings: JsonObject,
    parameters: Parameters,
    isRefusal: IsRefusal,
  ): Promise<GrantResult> {
    const { provider } = service;
    try {
      const { token } = provider.endpoints(settings);
      const { status, retryAfter, start } = await post(service, token, parameters);
      const answer = objectOf(start);
      const grant = status >= 200 && status < 300 ? grantIn(provider, answer, clock()) : undefined;
      if (grant !== undefined) return { kind: 'granted', grant };
      const reason = `${provider.title} answered ${status}${errorIn(answer)}`;
      if (isRefusal(status, answer)) return { kind: 'refused', reason };
      const afterMs = retryAfter === undefined ? undefined : parseRetryAfter(retryAfter, clock());
      return { kind: 'failed', reason, ...(afterMs !== undefined && { afterMs }) };
    } catch (error) {
      const failure = classifyFailure(error);
      const isTimeout = error instanceof DOMException && error.name === 'TimeoutError';
      if (failure === undefined && !isTimeout) throw error;
      const why = failure !== undefined && 'reason' in failure ? failure.reason : 'timed out';
      return { kind: 'failed', reason: `${provider.title}: ${why}` };
    }
  }

  return {
    authorizeUrl({ type, settings }, { redirectUri, state, verifier }) {
      const { provider, client, scopes } = serviceFor(type);
      const challenge = createHash('sha256').update(verifier).digest('base64url');
      const parameters = new URLSearchParams({
        response_type: 'code',
        [provider.names?.clientId ?? 'client_id']: client.id,
        redirect_uri: redirectUri,
        state,
        ...(scopes.length > 0 && { scope: scopes.join(' ') }),
        ...(provider.pkce && { code_challenge: challenge, code_challenge_method: 'S256' }),
        ...provider.authorize,
      });
      const { authorize } = provider.endpoints(settings);
      return `${authorize.replace('{client_id}', encodeURIComponent(client.id))}?${parameters}`;
    },

    async exchange({ type, settings }, { callback, redirectUri, verifier }) {
      const service = serviceFor(type);
      const { provider } = service;
      const name = provider.names?.code ?? 'code';
      const code = callback.get(name);
      if (code === null) {
        const error = { error: callback.get('error'), error_description: callback.get('error_description') };
        return { kind: 'refused', reason: `${provider.title} sent no code${errorIn(error)}` };
      }
      const isRefusal: IsRefusal = (status) => status < 500 && status !== 429;
      const result = await ask(
        service,
        settings,
        {
          grant_type: 'authorization_code',
          [name]: code,
          redirect_uri: redirectUri,
          ...(provider.pkce && { code_verifier: verifier }),
        },
        isRefusal,
      );
      if (provider.hasLongToken !== true || result.kind !== 'granted') return result;
      const { access } = result.grant.tokens;
      const longer = { grant_type: 'fb_exchange_token', fb_exchange_token: access };
      return ask(service, settings, longer, isRefusal);
    },

    async refresh({ type, settings }, { refresh }) {
      const service = serviceFor(type);
      const { provider } = service;
      if (refresh === undefined)
        return { kind: 'refused', reason: `${provider.title} gave no refresh token` };
      const parameters = { grant_type: 'refresh_token', refresh_token: refresh, ...provider.refresh };
      return ask(service, settings, parameters, provider.isRefusal ?? isInvalidGrant);
    },

    async revoke({ type, settings }, { access, refresh = access }) {
      try {
        // The installation may have no client of the service any more.
        const service = serviceFor(type);
        const { revoke } = service.provider.endpoints(settings);
        if (revoke === undefined) return false;
        const { status } = await post(service, revoke, { token: refresh });
        return status >= 200 && status < 300;
      } catch {
        return false;
      }
    },

    async close() {
      await (await opened)?.close();
    },
  };
}

/** Undefined for an answer without a token, or without a setting that the destination needs. */
function grantIn(provider: Provider, answer: JsonObject, now: number) {
  const granted = provider.member === undefined ? answer : objectIn(answer[provider.member]);
  const { access_token: access, refresh_token: refresh, expires_in } = granted;
  const settings = provider.settingsOf === undefined ? {} : provider.settingsOf(granted);
  if (typeof access !== 'string' || access === '' || settings === undefined) return undefined;
  const lifetime = Number(expires_in) * 1_000;
  const tokens: ServiceTokens = {
    access,
    ...(typeof refresh === 'string' && refresh !== '' && { refresh }),
    ...(lifetime > 0 && { expiresAt: now + lifetime - Math.min(EARLY_MS, lifetime * EARLY_PART) }),
  };
  return { tokens, settings };
}

function objectOf(body: Uint8Array): JsonObject {
  try {
    return objectIn(JSON.parse(new TextDecoder().decode(body)));
  } catch {
    return {};
  }
}

/** The code that a service has for an error; its description may hold what was sent. */
function errorIn({ error, code }: JsonObject): string {
  const named = typeof error === 'string' ? error : objectIn(error).type;
  const said = named ?? (code === 0 ? undefined : code);
  return /^[\w.-]{1,60}$/.test(String(said ?? '')) ? `: ${String(said)}` : '';
}
