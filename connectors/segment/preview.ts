import { isObject, type Json, type PreviewedRequest } from '@tributary/core';
import type { HttpSent } from './messages.ts';

/** Characters of a body that are shown. */
const MAX_BODY = 64 * 1_024;
const MASK = '***';
/** Headers that hold credentials, also in forms that cannot be found by the text of a secret. */
const CREDENTIALS = /auth|key|token|secret|cookie|signature|password/i;

/** A text without secrets, also where they are encoded for a URL or in Base64. */
export function maskedText(text: string, secrets: readonly string[]): string {
  return secrets.flatMap(formsOf).reduce((rest, secret) => rest.replaceAll(secret, MASK), text);
}

function formsOf(secret: string): readonly string[] {
  const encoded = [
    secret,
    encodeURIComponent(secret),
    Buffer.from(secret).toString('base64').replace(/=+$/, ''),
  ];
  return [...new Set(encoded)];
}

export function maskedValue(value: Json, secrets: readonly string[]): Json {
  if (typeof value === 'string') return maskedText(value, secrets);
  if (Array.isArray(value)) return value.map((item) => maskedValue(item, secrets));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, maskedValue(member, secrets)]),
  );
}

export function maskedRequest(
  { method, url, headers, body }: HttpSent,
  secrets: readonly string[],
): PreviewedRequest {
  const shown = headers.map(([name, value]) => [
    name,
    CREDENTIALS.test(name) ? value.replace(/^(\w+ )?.*$/s, `$1${MASK}`) : maskedText(value, secrets),
  ]);
  return {
    method,
    url: maskedText(url, secrets),
    headers: Object.fromEntries(shown),
    body: maskedText(Buffer.from(body, 'base64').toString('utf8'), secrets).slice(0, MAX_BODY),
  };
}
