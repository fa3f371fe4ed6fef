import { createPublicKey, type JsonWebKey } from 'node:crypto';
import { messageOf } from '@tributary/core';
import type { JSONWebKeySet } from 'jose';
import { keysUrlOf } from './provider-url.ts';

/** A discovery document or a key set at most; real ones have a few KB. */
const MAX_BYTES = 512 * 1024;
/** Shorter RSA keys are refused by every verification. */
const MIN_RSA_BITS = 2048;

/** The public keys an issuer signs with now, by OpenID Connect discovery. Throws an error a person can act on. */
export async function fetchKeys(issuer: string, signal: AbortSignal): Promise<JSONWebKeySet> {
  const discovery = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const { issuer: named, jwks_uri: keysUrl } = objectOf(await fetchJson(discovery, signal), discovery);
  if (named !== issuer) throw new Error(`${discovery} says its issuer is ${shown(named)}`);
  const url = keysUrlOf(issuer, keysUrl);
  if (url === undefined)
    throw new Error(`the jwks_uri of ${issuer} is no https:// URL that may be used: ${shown(keysUrl)}`);
  const { keys } = objectOf(await fetchJson(url, signal), url);
  const usable = Array.isArray(keys) ? keys.filter(isPublicKey) : [];
  if (usable.length === 0) throw new Error(`${url} holds no public key`);
  return { keys: usable };
}

/** The start of what an issuer said: enough to see what is wrong. */
function shown(value: unknown): string {
  return `${JSON.stringify(value)}`.slice(0, 200);
}

/** A key that nothing can be verified with is as good as absent: it must not spoil the others. */
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

/** Follows no redirect: only the configured address may name the keys. */
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

/** `fetch` says why it failed in the cause alone, which has but a code where several addresses were tried. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const message = messageOf(cause);
  return message === '' && cause instanceof Error && 'code' in cause ? String(cause.code) : message;
}
