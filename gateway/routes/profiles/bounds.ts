import {
  MAX_PROFILE_BYTES,
  MAX_PROFILE_IDENTITIES,
  type NewAttribute,
  type ProfileExcess,
} from '@tributary/core';
import type { Static } from 'typebox';
import { ApiError, invalidRequest } from '../../errors/api-error.ts';
import type { SentNamed } from './attributes.ts';
import type { writeBody } from './schemas.ts';

type Upsert = NonNullable<Static<typeof writeBody>['upsert']>;

/** JSON bytes of the smallest register of a profile. */
const LEAST_REGISTER_BYTES = '{"name":"","value":"","ts":0},'.length;
/** Attributes, preferences and consents that fit into a profile at most, all together. */
const MAX_REGISTERS = Math.floor(MAX_PROFILE_BYTES / LEAST_REGISTER_BYTES);

/**
 * 400 for more identities than a profile can hold. Counted before anything is built of the body, which may have half a
 * million of them.
 */
export function refuseManyIdentities(count: number, path: '/ids' | '/search'): void {
  if (count > MAX_PROFILE_IDENTITIES)
    throw invalidRequest({ path, message: `must hold at most ${MAX_PROFILE_IDENTITIES} identities` });
}

/** 413 for more attributes, preferences and consents than a profile can hold. */
export function refuseManyValues({ profile, mkt_preferences: preferences, consent }: Upsert): void {
  let count = sizeOf(preferences) + sizeOf(consent);
  for (const category of Object.values(profile ?? {})) count += Math.max(1, sizeOf(category));
  if (count > MAX_REGISTERS) throw tooLarge();
}

/** 413 for values that are larger than a profile may be, without the times that a profile adds. */
export function refuseHeavyValues(values: {
  readonly attributes: readonly NewAttribute[];
  readonly preferences: readonly SentNamed[];
  readonly consents: readonly SentNamed[];
}): void {
  if (Buffer.byteLength(JSON.stringify(values)) > MAX_PROFILE_BYTES) throw tooLarge();
}

const EXCESSES: Readonly<Record<ProfileExcess['of'], string>> = {
  values:
    'the profile would have more than {limit} attributes, preferences and consents, unset ones included',
  bytes: 'the profile would have more than {limit} bytes',
  value_bytes: 'a value of the profile would have more than {limit} bytes',
};

/**
 * 413 with the bound as `quota`, such as `profile_values`, and its `limit`. `size`: what the profile would have; only for
 * callers that may read it.
 */
export function tooLarge(
  { of, limit, size }: ProfileExcess = { of: 'bytes', limit: MAX_PROFILE_BYTES, size: 0 },
  mayRead = false,
): ApiError {
  const fields = { quota: `profile_${of}`, limit, ...(mayRead ? { size } : {}) };
  const message = EXCESSES[of].replace('{limit}', String(limit));
  return new ApiError(413, 'payload too large', { fields, details: [{ path: '/upsert', message }] });
}

function sizeOf(value: unknown): number {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value).length : 0;
}
