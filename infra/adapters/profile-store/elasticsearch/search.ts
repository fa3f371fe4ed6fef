import type { Identity, Profile, ProfileSearch } from '@tributary/core';
import { claimHash, profileDocumentOf, profileId } from './document-forms.ts';
import { holds } from './holds.ts';
import { AGAIN, type Again } from './restarts.ts';
import type { Root } from './roots.ts';
import type { StoreTools } from './store-tools.ts';
import { type HashedIdentity, View } from './view.ts';

/** One attempt. `AGAIN` when somebody wrote a profile before it was certain that what was read stays. */
export async function attemptSearch(search: ProfileSearch, tools: StoreTools): Promise<Profiles | Again> {
  const { regions, org, identities } = search;
  const hashed = regions.flatMap((region) =>
    identities.map((identity) => ({ identity, claim: claimHash({ org, region }, identity) })),
  );
  return (await searchByHints(search, hashed, tools)) ?? searchByClaims(search, hashed, tools);
}

type Profiles = readonly Profile[];

/**
 * What nearly every search comes to, with one read and nothing else: hints lead to live profiles that bear them out and
 * are durable. Undefined where one of them does not.
 */
async function searchByHints(
  { org, regions, ucids }: ProfileSearch,
  hashed: readonly HashedIdentity[],
  { documents, hints, durable }: StoreTools,
): Promise<Profiles | undefined> {
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
  const found: Profile[] = [];
  for (const [ucid, sought] of hinted) {
    const document = profileDocumentOf(stored[found.length]);
    if (document?.state !== 'live' || !durable.isDurable(ucid, document)) return undefined;
    const { profile } = document.content;
    if (profile.org !== org || !regions.includes(profile.region)) return undefined;
    if (!sought.every((identity) => holds(profile, identity))) return undefined;
    found.push(profile);
  }
  return distinct(found);
}

async function searchByClaims(
  { org, regions, ucids }: ProfileSearch,
  hashed: readonly HashedIdentity[],
  { documents, hints, durable }: StoreTools,
): Promise<Profiles | Again> {
  const view = new View(documents, hints);
  await view.load(hashed, ucids);
  const found = new Map<string, Profile>();
  const roots: Root[] = [];
  const take = (root: Root | undefined, isMeant: (profile: Profile) => boolean) => {
    if (root !== undefined) roots.push(root);
    if (root?.kind !== 'profile') return false;
    const { profile } = root.document.content;
    if (profile.org !== org || !regions.includes(profile.region) || !isMeant(profile)) return false;
    found.set(root.ucid, profile);
    return true;
  };
  for (const { identity, claim } of hashed) {
    const root = view.rootOfClaim(claim);
    if (take(root, (profile) => holds(profile, identity)) && root?.kind === 'profile')
      view.remember(claim, root.ucid);
  }
  for (const ucid of ucids) take(view.rootOf(ucid), () => true);
  if ((await durable.settle(roots)) === AGAIN) return AGAIN;
  return distinct([...found.values()]);
}

/** Oldest first. Read one after the other, a profile and what it has become part of since may both be there. */
function distinct(profiles: Profiles): Profiles {
  if (profiles.length < 2) return profiles;
  const linked = new Set(profiles.flatMap((profile) => profile.linked));
  return profiles.filter(({ ucid }) => !linked.has(ucid)).sort((a, b) => (a.ucid < b.ucid ? -1 : 1));
}
