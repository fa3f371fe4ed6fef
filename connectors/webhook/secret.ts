import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';

const PREFIX = 'whsec_';
const MIN_BYTES = 24;
const MAX_BYTES = 64;

/** Bytes of a secret made here. */
export const SECRET_BYTES = 32;

/** The Standard Webhooks form of a signing secret: the prefix and the key in base64. */
export function formatSecret(key: Uint8Array): string {
  return PREFIX + Buffer.from(key).toString('base64');
}

/** True for the prefix and base64, as an encoder writes it, of 24 to 64 bytes. */
export function isSecret(text: string): boolean {
  const key = Buffer.from(text.slice(PREFIX.length), 'base64');
  return formatSecret(key) === text && key.length >= MIN_BYTES && key.length <= MAX_BYTES;
}

/** The key of a secret. A key object is made once: to sign with bytes costs five times as much. */
export function keyOf(secret: string): KeyObject {
  return createSecretKey(secret.slice(PREFIX.length), 'base64');
}

/** The Standard Webhooks signature of `<id>.<timestamp>.` and the body, version 1: HMAC-SHA256 in base64. */
export function signatureOf(key: KeyObject, start: string, body: Uint8Array): string {
  return `v1,${createHmac('sha256', key).update(start).update(body).digest('base64')}`;
}
