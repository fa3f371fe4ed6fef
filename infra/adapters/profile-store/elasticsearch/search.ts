import type { Profile, ProfileSearch } from '@tributary/core';
import { claimHash } from './document-forms.ts';
import { holds } from './holds.ts';
import { AGAIN, type Again } from './restarts.ts';
import type { Root } from './roots.ts';
import type { StoreTools } from './store-tools.ts';
import { View } from './view.ts';

/** One attempt. `AGAIN` when somebody wrote a profile before it was certain that what was read stays. */
export async function attemptSearch(
  { org, regions, identities, ucids }: ProfileSearch,
  { documents, hints, durable }: StoreTools,
): Promise<readonly Profile[] | Again> {
  const hashed = regions.flatMap((region) =>
    identities.map((identity) => ({ identity, claim: claimHash({ org, region }, identity) })),
  );
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
  // Read one after the other, a profile and what it has become part of since may both be there.
  const linked = new Set([...found.values()].flatMap((profile) => profile.linked));
  return [...found.values()]
    .filter(({ ucid }) => !linked.has(ucid))
    .sort((a, b) => (a.ucid < b.ucid ? -1 : 1));
}
