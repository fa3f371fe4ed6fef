import { type BlockedIdentity, type IsBlocked, readBlockList } from './blocked-identities.ts';
import type { IdentityReading } from './identity.ts';
import { DEFAULT_LIMITS, type IdentityLimits, type TypeLimit } from './identity-limits.ts';

/** What an organization decides about its profiles. */
export interface ProfileSettings {
  /** ISO 3166 alpha-2: the country of telephone numbers that name none. Null: they are not read. */
  readonly default_country: string | null;
  readonly blocked_identities: readonly BlockedIdentity[];
  /** Of types that have a bound of their own; those of `DEFAULT_LIMITS` hold where a type is not among them. */
  readonly identity_limits: readonly TypeLimit[];
  /** Different `user_id`s that one identity may bring together. Null: as `DEFAULT_LIMITS` has it. */
  readonly max_user_ids_per_identity: number | null;
}

export const NO_PROFILE_SETTINGS: ProfileSettings = {
  default_country: null,
  blocked_identities: [],
  identity_limits: [],
  max_user_ids_per_identity: null,
};

/** The settings as writes of profiles use them; absent parts are those of an organization without settings. */
export interface ProfileRules {
  readonly isBlocked?: IsBlocked;
  readonly limits?: IdentityLimits;
}

const NO_RULES: ProfileRules = {};
const rules = new WeakMap<ProfileSettings, ProfileRules>();

/** Compiled once for each version of the settings: the catalog makes a new object for a change. */
export function profileRulesOf(settings: ProfileSettings | undefined): ProfileRules {
  if (settings === undefined) return NO_RULES;
  const known = rules.get(settings);
  if (known !== undefined) return known;
  const made = { ...blockingOf(settings), ...limitsOf(settings) };
  rules.set(settings, made);
  return made;
}

/** How the identities of an organization are to be read. */
export function identityReadingOf(settings: ProfileSettings | undefined): IdentityReading {
  const country = settings?.default_country;
  return country == null ? {} : { defaultCountry: country };
}

/** The limits of all types that have one. */
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
