import { type BlockedIdentity, type IsBlocked, readBlockList } from './blocked-identities.ts';
import type { IdentityReading } from './identity.ts';
import { DEFAULT_LIMITS, type IdentityLimits, type TypeLimit } from './identity-limits.ts';

/** Settings of an organization for its profiles. */
export interface ProfileSettings {
  /** ISO 3166 alpha-2: the country of telephone numbers without a country code. Null: such numbers are not parsed. */
  readonly default_country: string | null;
  readonly blocked_identities: readonly BlockedIdentity[];
  /** Limits by type; for types without one, those of `DEFAULT_LIMITS`. */
  readonly identity_limits: readonly TypeLimit[];
  /** Number of different `user_id`s that one identity may link. Null: that of `DEFAULT_LIMITS`. */
  readonly max_user_ids_per_identity: number | null;
}

export const NO_PROFILE_SETTINGS: ProfileSettings = {
  default_country: null,
  blocked_identities: [],
  identity_limits: [],
  max_user_ids_per_identity: null,
};

/** The settings in the form that profile writes need; absent parts mean defaults. */
interface ProfileRules {
  readonly isBlocked?: IsBlocked;
  readonly limits?: IdentityLimits;
}

const NO_RULES: ProfileRules = {};
const rules = new WeakMap<ProfileSettings, ProfileRules>();

/** Compiled once for each version of the settings: a change creates a new object in the catalog. */
export function profileRulesOf(settings: ProfileSettings | undefined): ProfileRules {
  if (settings === undefined) return NO_RULES;
  const known = rules.get(settings);
  if (known !== undefined) return known;
  const made = { ...blockingOf(settings), ...limitsOf(settings) };
  rules.set(settings, made);
  return made;
}

/** The part of the settings that affects reading identities. */
export function identityReadingOf(settings: ProfileSettings | undefined): IdentityReading {
  const country = settings?.default_country;
  return country == null ? {} : { defaultCountry: country };
}

/** The limits of all types with a limit, defaults included. */
export function typeLimitsOf({ identity_limits }: ProfileSettings): readonly TypeLimit[] {
  const own = new Set(identity_limits.map(({ type }) => type));
  return [...identity_limits, ...DEFAULT_LIMITS.types.filter(({ type }) => !own.has(type))];
}

function blockingOf(settings: ProfileSettings): Pick<ProfileRules, 'isBlocked'> {
  const { blocked_identities } = settings;
  if (blocked_identities.length === 0) return {};
  const read = readBlockList(blocked_identities, identityReadingOf(settings));
  // Lists are checked before they are stored.
  if ('faults' in read)
    throw new TypeError('the catalog holds a list of blocked identities that cannot be used');
  return { isBlocked: read.isBlocked };
}

function limitsOf(settings: ProfileSettings): Pick<ProfileRules, 'limits'> {
  const { identity_limits, max_user_ids_per_identity: user_ids } = settings;
  if (identity_limits.length === 0 && user_ids === null) return {};
  return { limits: { types: typeLimitsOf(settings), user_ids: user_ids ?? DEFAULT_LIMITS.user_ids } };
}
