import { MAX_PROFILE_BYTES, MAX_PROFILE_IDENTITIES, type NewAttribute } from '@tributary/core';
import type { Static } from 'typebox';
import { type ApiError, invalidRequest, payloadTooLarge } from '../../errors/api-error.ts';
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
  readonly preferences: readonly (readonly [string, string | null])[];
  readonly consents: readonly (readonly [string, string | null])[];
}): void {
  if (Buffer.byteLength(JSON.stringify(values)) > MAX_PROFILE_BYTES) throw tooLarge();
}

export function tooLarge(): ApiError {
  return payloadTooLarge('/upsert', `the profile would have more than ${MAX_PROFILE_BYTES} bytes`);
}

function sizeOf(value: unknown): number {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value).length : 0;
}
