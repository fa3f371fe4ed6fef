import { createPublicKey, type JsonWebKey } from 'node:crypto';
import { messageOf } from '@tributary/core';
import type { JSONWebKeySet } from 'jose';

/** Largest discovery document or key set; real ones have a few KB. */
const MAX_BYTES = 512 * 1024;
/** Shorter RSA keys are refused by every verification. */
const MIN_RSA_BITS = 2048;

/** The public keys of an issuer, and what its discovery document says about sign-in. */
export interface IssuerKeySet extends JSONWebKeySet {
  /** The origins of the endpoints that a browser calls to sign in. */
  readonly endpointOrigins?: readonly string[];
}

/** The current public keys of an issuer, by OpenID Connect discovery. Errors have a message for the operator. */
export async function fetchKeys(issuer: string, signal: AbortSignal): Promise<IssuerKeySet> {
  const discovery = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const document = objectOf(await fetchJson(discovery, signal), discovery);
  const { issuer: named, jwks_uri: keysUrl } = document;
  if (named !== issuer) throw new Error(`${discovery} says its issuer is ${shown(named)}`);
  const url = keysUrlOf(issuer, keysUrl);
  if (url === undefined)
    throw new Error(`the jwks_uri of ${issuer} is no https:// URL that may be used: ${shown(keysUrl)}`);
  const { keys } = objectOf(await fetchJson(url, signal), url);
  const usable = Array.isArray(keys) ? keys.filter(isPublicKey) : [];
  if (usable.length === 0) throw new Error(`${url} holds no public key`);
  return { keys: usable, endpointOrigins: endpointOriginsOf(document) };
}

function endpointOriginsOf(document: Readonly<Record<string, unknown>>): readonly string[] {
  const urls = [document.authorization_endpoint, document.token_endpoint].filter(
    (url): url is string => typeof url === 'string' && URL.canParse(url) && isSafeUrl(new URL(url)),
  );
  return [...new Set(urls.map((url) => new URL(url).origin))];
}

/** The start of a value from the issuer, for an error message. */
function shown(value: unknown): string {
  return `${JSON.stringify(value)}`.slice(0, 200);
}

/** An unusable key is skipped, so that it does not affect the others. */
function isPublicKey(jwk: unknown): boolean {
  try {
    const { type, asymmetricKeyDetails } = createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' });
    const bits = asymmetricKeyDetails?.modulusLength ?? MIN_RSA_BITS;
    return type === 'public' && bits >= MIN_RSA_BITS && !('d' in (jwk as object));
  } catch {
    return false;
  }
}

function objectOf(value: unknown, url: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error(`${url} answered something that is no JSON object`);
  return value as Readonly<Record<string, unknown>>;
}

/** Follows no redirects: only the configured address may name the keys. */
async function fetchJson(url: string, signal: AbortSignal): Promise<unknown> {
  let text: string;
  try {
    const response = await fetch(url, {
      signal,
      redirect: 'manual',
      headers: { accept: 'application/json' },
    });
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new Error(`it answered ${response.status}`);
    }
    text = await boundedText(response);
  } catch (error) {
    throw new Error(`${url} could not be fetched: ${reasonOf(error)}`, { cause: error });
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${url} answered something that is no JSON`, { cause: error });
  }
}

async function boundedText({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BYTES) throw new Error(`it answered more than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The reason of a failed `fetch` is in the cause, which has only a code if several addresses were tried. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const message = messageOf(cause);
  return message === '' && cause instanceof Error && 'code' in cause ? String(cause.code) : message;
}

/**
 * Whether keys may be fetched from this URL: encrypted or from this machine, as an attacker who changes them in transit
 * could sign in as anyone.
 */
export function isSafeUrl(url: URL): boolean {
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
}

function isLoopback(hostname: string): boolean {
  return /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(hostname);
}

/**
 * The URL of an issuer's keys, from its discovery document; undefined if it must not be used. It may be on another host,
 * but not on loopback unless the issuer is: a remote document could make this process request what is only reachable here.
 */
export function keysUrlOf(issuer: string, jwksUri: unknown): string | undefined {
  if (typeof jwksUri !== 'string' || !URL.canParse(jwksUri)) return undefined;
  const url = new URL(jwksUri);
  if (!isSafeUrl(url) || (isLoopback(url.hostname) && !isLoopback(new URL(issuer).hostname)))
    return undefined;
  return url.href;
}
