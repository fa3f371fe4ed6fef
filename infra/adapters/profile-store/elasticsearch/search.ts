import { checkFoundSize, type Identity, type Profile, type ProfileSearch } from '@tributary/core';
import {
  claimHash,
  type LiveDocument,
  profileDocumentOf,
  profileId,
  type RedirectDocument,
} from './document-forms.ts';
import { holds } from './holds.ts';
import { AGAIN, type Again } from './restarts.ts';
import type { Root } from './roots.ts';
import type { StoreTools } from './store-tools.ts';
import { type HashedIdentity, View } from './view.ts';

/** Values that are looked for together before it is known how long profiles are: each may be a megabyte. */
const FIRST_PIECE = 32;
/** Of the profiles of each piece after the first, as far as those before tell. */
const PIECE_CHARACTERS = 8 * 1024 * 1024;

/** What one piece of a search found: the profiles by ucid, each with the characters of its document. */
type Found = ReadonlyMap<string, { readonly profile: Profile; readonly characters: number }>;
type Values = Pick<ProfileSearch, 'org' | 'regions'> & {
  readonly hashed: readonly HashedIdentity[];
  readonly ucids: readonly string[];
};

/**
 * One attempt. `AGAIN` when somebody wrote a profile before it was certain that what was read stays. Looks for a few
 * values first, and for as many more at a time as their profiles are short: no more is held than may be found.
 */
export async function attemptSearch(
  { org, regions, identities, ucids }: ProfileSearch,
  tools: StoreTools,
): Promise<readonly Profile[] | Again> {
  const hashed = regions.flatMap((region) =>
    identities.map((identity) => ({ identity, claim: claimHash({ org, region }, identity) })),
  );
  const found = new Map<string, Profile>();
  const count = Math.max(hashed.length, ucids.length);
  let characters = 0;
  for (let from = 0, to = FIRST_PIECE; from < count; ) {
    const values = { org, regions, hashed: hashed.slice(from, to), ucids: ucids.slice(from, to) };
    const piece = (await searchByHints(values, tools)) ?? (await searchByClaims(values, tools));
    if (piece === AGAIN) return AGAIN;
    for (const [ucid, { profile, characters: its }] of piece) {
      if (!found.has(ucid)) characters += its;
      found.set(ucid, profile);
    }
    checkFoundSize(characters);
    from = to;
    to += Math.max(FIRST_PIECE, Math.floor(PIECE_CHARACTERS / Math.max(1, characters / from)));
  }
  return distinct([...found.values()]);
}

/**
 * What nearly every search comes to, with one read and nothing else: hints lead to live profiles that bear them out and
 * are durable. Undefined where one of them does not.
 */
async function searchByHints(
  { org, regions, hashed, ucids }: Values,
  { documents, hints, durable }: StoreTools,
): Promise<Found | undefined> {
  if (ucids.length > 0) return undefined;
  const hinted = new Map<string, Identity[]>();
  for (const { identity, claim } of hashed) {
    const ucid = hints.get(claim);
    if (ucid === undefined) return undefined;
    const others = hinted.get(ucid);
    if (others === undefined) hinted.set(ucid, [identity]);
    else others.push(identity);
  }
  const stored = await documents.read(Array.from(hinted.keys(), profileId));
  const found = new Map<string, { profile: Profile; characters: number }>();
  for (const [ucid, sought] of hinted) {
    const document = profileDocumentOf(stored[found.size]);
    if (document?.state !== 'live' || !durable.isDurable(ucid, document)) return undefined;
    const { profile } = document.content;
    if (profile.org !== org || !regions.includes(profile.region)) return undefined;
    if (!sought.every((identity) => holds(profile, identity))) return undefined;
    found.set(ucid, { profile, characters: charactersOf(document) });
  }
  return found;
}

async function searchByClaims(
  { org, regions, hashed, ucids }: Values,
  { documents, hints, durable }: StoreTools,
): Promise<Found | Again> {
  const view = new View(documents, hints);
  await view.load(hashed, ucids);
  const found = new Map<string, { profile: Profile; characters: number }>();
  const roots: Root[] = [];
  const take = (root: Root | undefined, isMeant: (profile: Profile) => boolean) => {
    if (root !== undefined) roots.push(root);
    if (root?.kind !== 'profile') return false;
    const { profile } = root.document.content;
    if (profile.org !== org || !regions.includes(profile.region) || !isMeant(profile)) return false;
    found.set(root.ucid, { profile, characters: charactersOf(root.document) });
    return true;
  };
  for (const { identity, claim } of hashed) {
    const root = view.rootOfClaim(claim);
    if (take(root, (profile) => holds(profile, identity)) && root?.kind === 'profile')
      view.remember(claim, root.ucid);
  }
  for (const ucid of ucids) take(view.rootOf(ucid), () => true);
  if ((await durable.settle(roots)) === AGAIN) return AGAIN;
  return found;
}

function charactersOf({ stored }: LiveDocument | RedirectDocument): number {
  return stored.source.body.length;
}

/** Oldest first. Read one after the other, a profile and what it has become part of since may both be there. */
function distinct(profiles: readonly Profile[]): readonly Profile[] {
  if (profiles.length < 2) return profiles;
  const linked = new Set(profiles.flatMap((profile) => profile.linked));
  return profiles.filter(({ ucid }) => !linked.has(ucid)).sort((a, b) => (a.ucid < b.ucid ? -1 : 1));
}
