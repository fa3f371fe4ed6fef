import { HASHED_EMAIL, type Identity, identityKey, type Profile, RAW_EMAIL } from '@tributary/core';

/** Whether the profile has the identity, in whichever form; readers believe nothing else, whatever a claim says. */
export function holds({ identities }: Profile, identity: Identity): boolean {
  const { type, value } = identity;
  if (identities.some((held) => held.type === type && held.value === value)) return true;
  const other = type === RAW_EMAIL ? HASHED_EMAIL : type === HASHED_EMAIL ? RAW_EMAIL : undefined;
  if (other === undefined || !identities.some((held) => held.type === other)) return false;
  const key = identityKey(identity);
  return identities.some((held) => held.type === other && identityKey(held) === key);
}
