import type { Json, JsonObject } from '@tributary/core';
import { isSecret } from './secret.ts';

export const DEFAULT_ROTATION_HOURS = 24;
export const MAX_ROTATION_HOURS = 168;
/** Each adds a signature to every request. */
export const MAX_PREVIOUS = 4;

const HOUR_MS = 3_600_000;

/** A secret that was replaced, and until when it signs, epoch ms. */
export interface PreviousSecret {
  readonly secret: string;
  readonly until: number;
}

/** Those that settings hold, well-formed. */
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
 * The settings to be stored: a secret that is replaced joins those that sign beside the new one for `rotation_hours`,
 * and those whose time is over leave. None stay where the hours are 0.
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
