import { messageOf, Unavailable } from '@tributary/core';

/** A token for SASL OAUTHBEARER. */
export interface BearerToken {
  readonly value: string;
  /** Epoch ms. */
  readonly expiresAt: number;
}

/** A token is renewed once this part of its life is over: the rest of its life bounds the session of a connection. */
const RENEWED_AFTER = 0.5;
/** A token that expires sooner is not used any more, ms: it has to reach the broker. */
const LAST_MS = 2_000;
/** A failed request for a token is not repeated sooner, ms: each connection of the process asks. */
const AGAIN_AFTER_MS = 1_000;

/**
 * Returns a valid token at each call. All callers share one token and one request for it. It is renewed before it expires;
 * while that fails, calls still get the old one until it expires, then `Unavailable`.
 */
export function renewedTokens(
  request: () => Promise<BearerToken>,
  clock: () => number = Date.now,
): () => Promise<string> {
  let token: BearerToken | undefined;
  let renewAt = 0;
  let renewing: Promise<BearerToken> | undefined;
  let failure: { readonly at: number; readonly error: Unavailable } | undefined;

  const renew = (): Promise<BearerToken> => {
    const requestedAt = clock();
    if (failure !== undefined && requestedAt - failure.at < AGAIN_AFTER_MS)
      return Promise.reject(failure.error);
    renewing ??= request()
      .then(
        (found) => {
          token = found;
          renewAt = requestedAt + (found.expiresAt - requestedAt) * RENEWED_AFTER;
          failure = undefined;
          return found;
        },
        (error: unknown) => {
          const unavailable = new Unavailable(`no token for Kafka: ${messageOf(error)}`, { cause: error });
          failure = { at: clock(), error: unavailable };
          throw unavailable;
        },
      )
      .finally(() => {
        renewing = undefined;
      });
    return renewing;
  };

  return async () => {
    const now = clock();
    if (token === undefined || token.expiresAt - now < LAST_MS) return (await renew()).value;
    // The next call that finds no valid token reports the failure.
    if (now >= renewAt) renew().catch(() => {});
    return token.value;
  };
}

export interface ClientCredentials {
  /** The token endpoint of the issuer. */
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly scope?: string;
}

const ANSWER_MS = 10_000;
const MAX_BYTES = 64 * 1024;
/** Lifetime of a token whose answer does not state it, ms. */
const DEFAULT_LIFE_MS = 300_000;

/** A token by the client credentials grant (RFC 6749, 4.4). Errors name the address and never the credentials. */
export async function requestToken({
  tokenUrl,
  clientId,
  clientSecret,
  scope,
}: ClientCredentials): Promise<BearerToken> {
  const requestedAt = Date.now();
  const credentials = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`;
  const response = await fetch(tokenUrl, {
    method: 'POST',
    redirect: 'error',
    signal: AbortSignal.timeout(ANSWER_MS),
    headers: {
      accept: 'application/json',
      authorization: `Basic ${Buffer.from(credentials).toString('base64')}`,
    },
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      ...(scope === undefined ? {} : { scope }),
    }),
  }).catch((error: unknown) => {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    throw new Error(`${tokenUrl} cannot be reached (${messageOf(cause)})`, { cause: error });
  });
  const answer = fieldsOf(await response.text());
  if (!response.ok) throw new Error(`${tokenUrl} answered ${response.status}${reasonIn(answer) ?? ''}`);
  const { access_token: value, expires_in: seconds } = answer;
  if (typeof value !== 'string' || value === '')
    throw new Error(`${tokenUrl} answered without an access_token`);
  const life = Number(seconds) > 0 ? Number(seconds) * 1_000 : DEFAULT_LIFE_MS;
  return { value, expiresAt: requestedAt + life };
}

function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  if (text.length > MAX_BYTES) return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** The error code of the issuer, e.g. `invalid_client`. */
function reasonIn({ error }: Readonly<Record<string, unknown>>): string | undefined {
  return typeof error === 'string' && /^[\x20-\x7e]{1,100}$/.test(error) ? ` (${error})` : undefined;
}

/** A token of AWS MSK IAM: a request signed with the credentials that the AWS SDK finds in this process. */
export async function signMskToken(region: string): Promise<BearerToken> {
  const { generateAuthToken } = await import('aws-msk-iam-sasl-signer-js');
  const { token, expiryTime } = await generateAuthToken({ region });
  return { value: token, expiresAt: expiryTime };
}
