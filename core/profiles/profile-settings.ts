import type { IdentityReading } from './identity.ts';

/** What an organization decides about its profiles. */
export interface ProfileSettings {
  /** ISO 3166 alpha-2: the country of telephone numbers that name none. Absent or null: they are not read. */
  readonly default_country?: string | null;
}

export const NO_PROFILE_SETTINGS: ProfileSettings = { default_country: null };

/** How the identities of an organization are to be read. */
export function identityReadingOf(settings: ProfileSettings | undefined): IdentityReading {
  const country = settings?.default_country;
  return country == null ? {} : { defaultCountry: country };
}
