import type { DeletedDocument, LiveDocument, ProfileDocument, RedirectDocument } from './document-forms.ts';

/** The documents of ucids as they were read; undefined for a ucid without one. */
export type LoadedProfiles = ReadonlyMap<string, ProfileDocument | undefined>;

/** What a ucid leads to. */
export type Root =
  /** A profile: live, or frozen by a merge that has not happened. */
  | { readonly kind: 'profile'; readonly ucid: string; readonly document: LiveDocument | RedirectDocument }
  | { readonly kind: 'deleted'; readonly ucid: string; readonly document: DeletedDocument }
  /** The ucid was given out and no profile was made of it, or not yet. */
  | { readonly kind: 'absent'; readonly ucid: string }
  /** Deleted so long ago that nothing is left of it but the way there. */
  | { readonly kind: 'gone' }
  /** Not to be told before this ucid is read too. */
  | { readonly kind: 'unread'; readonly ucid: string }
  /** `ucid` was read as part of a profile, `of`, that did not list it when it was read: both are of different times. */
  | { readonly kind: 'torn'; readonly ucid: string; readonly of: string };

/**
 * Follows a ucid to its profile. A merge has happened when, and only when, the profile that it leads to lists the ucid
 * as linked: that list is written together with the data. Before, and after a split, a redirect is a profile of its own.
 */
export function rootOf(ucid: string, loaded: LoadedProfiles): Root {
  if (!loaded.has(ucid)) return { kind: 'unread', ucid };
  const document = loaded.get(ucid);
  if (document === undefined) return { kind: 'absent', ucid };
  switch (document.state) {
    case 'live':
      return { kind: 'profile', ucid, document };
    case 'deleted':
      return { kind: 'deleted', ucid, document };
    case 'folded': {
      const next = rootOf(document.to, loaded);
      return next.kind === 'absent' ? { kind: 'gone' } : asListed(ucid, next);
    }
    case 'redirect':
      return mergedInto(ucid, document.to, loaded) ?? { kind: 'profile', ucid, document };
  }
}

/** What a frozen profile has become part of; undefined where its merge has not happened. */
function mergedInto(ucid: string, to: string, loaded: LoadedProfiles): Root | undefined {
  if (!loaded.has(to)) return { kind: 'unread', ucid: to };
  const next = loaded.get(to);
  if (next === undefined) return undefined;
  const root = next.state === 'folded' ? rootOf(to, loaded) : undefined;
  if (root?.kind === 'unread' || root?.kind === 'torn') return root;
  if (!linkedOf(root === undefined ? next : documentOf(root)).includes(ucid)) return undefined;
  return asListed(ucid, root ?? rootOf(to, loaded));
}

/** The root of a ucid that became part of it: one that does not list it was read at another side of a split. */
function asListed(ucid: string, root: Root): Root {
  if (root.kind !== 'profile' && root.kind !== 'deleted') return root;
  return linkedOf(root.document).includes(ucid) ? root : { kind: 'torn', ucid, of: root.ucid };
}

function documentOf(root: Root): ProfileDocument | undefined {
  return root.kind === 'profile' || root.kind === 'deleted' ? root.document : undefined;
}

function linkedOf(document: ProfileDocument | undefined): readonly string[] {
  if (document?.state === 'deleted') return document.tombstone.linked;
  return document === undefined || document.state === 'folded' ? [] : document.content.profile.linked;
}
