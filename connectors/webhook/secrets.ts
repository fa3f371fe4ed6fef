import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import type { Json, JsonObject } from '@tributary/core';

const PREFIX = 'whsec_';
const MIN_BYTES = 24;
const MAX_BYTES = 64;

/** Bytes of a generated secret. */
export const SECRET_BYTES = 32;

/** The Standard Webhooks form of a signing secret: the prefix and the key in base64. */
export function formatSecret(key: Uint8Array): string {
  return PREFIX + Buffer.from(key).toString('base64');
}

/** Whether a text is the prefix and the canonical base64 of 24 to 64 bytes. */
export function isSecret(text: string): boolean {
  const key = Buffer.from(text.slice(PREFIX.length), 'base64');
  return formatSecret(key) === text && key.length >= MIN_BYTES && key.length <= MAX_BYTES;
}

/** The key of a secret. Signing with a key object costs a fifth of signing with bytes. */
export function keyOf(secret: string): KeyObject {
  return createSecretKey(secret.slice(PREFIX.length), 'base64');
}

/** The Standard Webhooks signature of `<id>.<timestamp>.` and the body, version 1: HMAC-SHA256 in base64. */
export function signatureOf(key: KeyObject, start: string, body: Uint8Array): string {
  return `v1,${createHmac('sha256', key).update(start).update(body).digest('base64')}`;
}

export const DEFAULT_ROTATION_HOURS = 24;
export const MAX_ROTATION_HOURS = 168;
/** Each adds a signature to every request. */
export const MAX_PREVIOUS = 4;

const HOUR_MS = 3_600_000;

/** A replaced secret and the time until which it signs, epoch ms. */
export interface PreviousSecret {
  readonly secret: string;
  readonly until: number;
}

/** The well-formed replaced secrets of settings. */
export function previousSecrets(settings: JsonObject): readonly PreviousSecret[] {
  const { previous_secrets: previous } = settings;
  return Array.isArray(previous) ? previous.flatMap(previousSecret) : [];
}

function previousSecret(value: Json): readonly PreviousSecret[] {
  if (typeof value !== 'object' || value === null || !('secret' in value)) return [];
  const { secret, until } = value;
  if (typeof secret !== 'string' || !isSecret(secret) || typeof until !== 'string') return [];
  const at = Date.parse(until);
  return Number.isNaN(at) ? [] : [{ secret, until: at }];
}

/**
 * The settings to store after a change: a replaced secret keeps signing beside the new one for `rotation_hours`, and
 * expired ones are removed. With 0 hours all replaced secrets are removed.
 */
export function rotated(before: JsonObject, after: JsonObject, now: number): JsonObject {
  const { previous_secrets: _, rotation_until: __, ...settings } = after;
  const { rotation_hours: hours = DEFAULT_ROTATION_HOURS, secret } = settings;
  const overlapMs = typeof hours === 'number' ? hours * HOUR_MS : 0;
  if (overlapMs <= 0) return settings;
  const isReplaced = typeof before.secret === 'string' && before.secret !== secret;
  const replaced = isReplaced ? [{ secret: String(before.secret), until: now + overlapMs }] : [];
  const kept = [...replaced, ...previousSecrets(after)]
    .filter((one, at, all) => one.until > now && one.secret !== secret && isFirst(one, at, all))
    .slice(0, MAX_PREVIOUS);
  if (kept.length === 0) return settings;
  return {
    ...settings,
    previous_secrets: kept.map((one) => ({ secret: one.secret, until: new Date(one.until).toISOString() })),
    rotation_until: new Date(Math.max(...kept.map(({ until }) => until))).toISOString(),
  };
}

function isFirst({ secret }: PreviousSecret, at: number, all: readonly PreviousSecret[]): boolean {
  return all.findIndex((other) => other.secret === secret) === at;
}
