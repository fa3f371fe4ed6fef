import {
  checkFoundSize,
  type Identity,
  identityHash,
  type Profile,
  type ProfileSearch,
} from '@tributary/core';
import { type LiveDocument, profileDocumentOf, profileId, type RedirectDocument } from '../documents.ts';
import { CONFLICT, type Conflict, type OperationContext } from './context.ts';
import { type HashedIdentity, holds, type Root, View } from './view.ts';

/** Values of the first piece, before the size of the profiles is known: each may have a megabyte. */
const FIRST_PIECE = 32;
/** Target size of each further piece, estimated from the profiles found so far. */
const PIECE_CHARACTERS = 8 * 1024 * 1024;

/** The profiles that one piece of a search found, by ucid, each with the characters of its document. */
type Found = ReadonlyMap<string, { readonly profile: Profile; readonly characters: number }>;
type Values = Pick<ProfileSearch, 'org' | 'regions'> & {
  readonly hashed: readonly HashedIdentity[];
  readonly ucids: readonly string[];
};

/**
 * One attempt to search. Values are looked up in pieces, whose size follows from the size of the profiles found so far, so
 * that memory stays bounded.
 */
export async function attemptSearch(
  { org, regions, identities, ucids }: ProfileSearch,
  context: OperationContext,
): Promise<readonly Profile[] | Conflict> {
  const hashed = regions.flatMap((region) =>
    identities.map((identity) => ({ identity, hash: identityHash({ org, region }, identity) })),
  );
  const found = new Map<string, Profile>();
  const count = Math.max(hashed.length, ucids.length);
  let characters = 0;
  for (let from = 0, to = FIRST_PIECE; from < count; ) {
    const values = { org, regions, hashed: hashed.slice(from, to), ucids: ucids.slice(from, to) };
    const piece = (await searchCached(values, context)) ?? (await searchByIdentityClaims(values, context));
    if (piece === CONFLICT) return CONFLICT;
    for (const [ucid, { profile, characters: added }] of piece) {
      if (!found.has(ucid)) {
        characters += added;
        context.charge(org, added);
      }
      found.set(ucid, profile);
    }
    checkFoundSize(characters);
    from = to;
    to += Math.max(FIRST_PIECE, Math.floor(PIECE_CHARACTERS / Math.max(1, characters / from)));
  }
  return distinct([...found.values()]);
}

/**
 * The fast path of nearly every search, with a single read: cached locations lead to live, durable profiles that list the
 * identities. Undefined if one of them does not.
 */
async function searchCached(
  { org, regions, hashed, ucids }: Values,
  { documents, locations, durable }: OperationContext,
): Promise<Found | undefined> {
  if (ucids.length > 0) return undefined;
  const cached = new Map<string, Identity[]>();
  for (const { identity, hash } of hashed) {
    const ucid = locations.get(hash);
    if (ucid === undefined) return undefined;
    const others = cached.get(ucid);
    if (others === undefined) cached.set(ucid, [identity]);
    else others.push(identity);
  }
  const stored = await documents.read(Array.from(cached.keys(), profileId));
  const found = new Map<string, { profile: Profile; characters: number }>();
  for (const [ucid, sought] of cached) {
    const document = profileDocumentOf(stored[found.size]);
    if (document?.state !== 'live' || !durable.isDurable(ucid, document)) return undefined;
    const { profile } = document.content;
    if (profile.org !== org || !regions.includes(profile.region)) return undefined;
    if (!sought.every((identity) => holds(profile, identity))) return undefined;
    found.set(ucid, { profile, characters: charactersOf(document) });
  }
  return found;
}

async function searchByIdentityClaims(
  { org, regions, hashed, ucids }: Values,
  { documents, locations, durable }: OperationContext,
): Promise<Found | Conflict> {
  const view = new View(documents, locations);
  await view.load(hashed, ucids);
  const found = new Map<string, { profile: Profile; characters: number }>();
  const roots: Root[] = [];
  const take = (root: Root | undefined, isWanted: (profile: Profile) => boolean) => {
    if (root !== undefined) roots.push(root);
    if (root?.kind !== 'profile') return false;
    const { profile } = root.document.content;
    if (profile.org !== org || !regions.includes(profile.region) || !isWanted(profile)) return false;
    found.set(root.ucid, { profile, characters: charactersOf(root.document) });
    return true;
  };
  for (const { identity, hash } of hashed) {
    const root = view.rootOfIdentity(hash);
    if (take(root, (profile) => holds(profile, identity)) && root?.kind === 'profile')
      view.remember(hash, root.ucid);
  }
  for (const ucid of ucids) take(view.rootOf(ucid), () => true);
  if ((await durable.ensureDurable(roots)) === CONFLICT) return CONFLICT;
  return found;
}

function charactersOf({ stored }: LiveDocument | RedirectDocument): number {
  return stored.source.body.length;
}

/** Oldest first, without profiles that were merged into another result while the pieces were read. */
function distinct(profiles: readonly Profile[]): readonly Profile[] {
  if (profiles.length < 2) return profiles;
  const linked = new Set(profiles.flatMap((profile) => profile.linked));
  return profiles.filter(({ ucid }) => !linked.has(ucid)).sort((a, b) => (a.ucid < b.ucid ? -1 : 1));
}
