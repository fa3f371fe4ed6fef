import type { ProfileDeletion } from '@tributary/core';

/** Values that are deleted at once: their profiles may be large, and other calls wait meanwhile. */
const DELETED_AT_ONCE = 8;

/** A deletion in parts of a few values. `first`: the index of the first value of the part. */
export function* deletionParts(
  deletion: ProfileDeletion,
): Generator<{ readonly first: number; readonly part: ProfileDeletion }> {
  const { identities, ucids } = deletion;
  for (let at = 0; at < identities.length; at += DELETED_AT_ONCE)
    yield {
      first: at,
      part: { ...deletion, identities: identities.slice(at, at + DELETED_AT_ONCE), ucids: [] },
    };
  for (let at = 0; at < ucids.length; at += DELETED_AT_ONCE)
    yield {
      first: identities.length + at,
      part: { ...deletion, identities: [], ucids: ucids.slice(at, at + DELETED_AT_ONCE) },
    };
}
