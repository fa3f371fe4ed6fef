import { identityHash, type Profile, type ProfileChange, type ProfileScope } from '@tributary/core';
import type { OperationContext, View } from './context.ts';
import {
  type Content,
  type DocumentSource,
  type DocumentVersion,
  type DocumentWrite,
  deletedSource,
  type IdentityClaim,
  identityClaimId,
  identityClaimOf,
  identityClaimSource,
  type LiveDocument,
  liveSource,
  mergedSource,
  type Pending,
  profileId,
  type RedirectDocument,
  redirectSource,
  type Tombstone,
} from './documents.ts';

/**
 * A write of a document that excludes concurrent operations before identity claims are taken from it: an operation that read
 * the document earlier and has not written it yet will conflict. The document is rewritten unchanged; where there is none, a
 * tombstone is created, so that no profile can be created under the ucid any more.
 */
export interface Fence {
  readonly ucid: string;
  /** Of the identity whose claim leads to a ucid without a document. */
  readonly hash?: string;
}

/** Points an identity claim to `ucid`, or rewrites it unchanged, so that an operation that re-points it meanwhile conflicts. */
export interface IdentityClaimStep {
  readonly hash: string;
  readonly before: IdentityClaim | undefined;
  readonly ucid: string;
  /** The time of the identity's deletion that the identity claim keeps; see `IdentityClaim`. */
  readonly deletedAt: number;
}

/** A profile that is merged into the one that is written. */
export interface Joining {
  readonly ucid: string;
  readonly document: LiveDocument | RedirectDocument;
}

/** The new state of a profile, and the change to publish. */
interface Commit {
  /** The document as it was read; undefined for a new profile. */
  readonly document: LiveDocument | RedirectDocument | undefined;
  readonly deletions: Content['deletions'];
  readonly profile: Profile;
  /** The JSON of `profile`. */
  readonly text: string;
  readonly change: ProfileChange;
  /** A ucid that is split off by the change. */
  readonly splitOff?: string;
}

/**
 * The steps of one operation. Each is a compare-and-set of documents at the versions that the view shows, or that an
 * earlier step wrote, and is acknowledged before the next step begins.
 */
export class WriteSteps {
  readonly #context: OperationContext;
  readonly #view: View;
  readonly #written = new Map<string, DocumentVersion>();

  constructor(context: OperationContext, view: View) {
    this.#context = context;
    this.#view = view;
  }

  /**
   * Excludes operations that read one of these documents earlier and have not written it yet: they will conflict. False
   * on a conflict.
   */
  async fence(fences: readonly Fence[], { org, region }: ProfileScope): Promise<boolean> {
    return this.#all(
      fences.map(({ ucid, hash }): ProfileStep => {
        const stored = this.#view.document(ucid)?.stored;
        if (stored !== undefined) return { ucid, source: stored.source };
        const claims = hash === undefined ? [] : [hash];
        const tombstone = { org, region, ucid, version: 0, deletedAt: 0, linked: [], claims };
        return { ucid, source: deletedSource(tombstone, true, this.#context.clock(), undefined) };
      }),
    );
  }

  /** Freezes the profiles that are to be merged, and writes the identity claims. False on a conflict. */
  async claimIdentitiesAndFreeze({
    identityClaims,
    joining,
    ucid: to,
  }: {
    readonly identityClaims: readonly IdentityClaimStep[];
    readonly joining: readonly Joining[];
    readonly ucid: string;
  }): Promise<boolean> {
    const freezes = joining.map(({ ucid, document: { content, pending } }) => ({
      ucid,
      source: redirectSource(content, pending, to),
    }));
    const claimWrites = identityClaims.map(({ hash, before, ...leads }) => ({
      id: identityClaimId(hash),
      expected: before?.stored.version ?? ('absent' as const),
      source: identityClaimSource(leads),
    }));
    return this.#all(freezes, claimWrites);
  }

  /** Writes one document of a profile; undefined on a conflict. */
  async put(ucid: string, source: DocumentSource): Promise<DocumentVersion | undefined> {
    return (await this.#all([{ ucid, source }])) ? this.#written.get(ucid) : undefined;
  }

  /**
   * Writes the profile live, together with the change to be published: the commit of an operation. False on a conflict.
   * If the outcome is unknown, the change is left to the sweeper, which publishes it if it was committed.
   */
  async commit({ document, deletions, profile, text, change, splitOff }: Commit): Promise<boolean> {
    const { ucid } = profile;
    const earlier = (await this.#unpublishedMerges(document)).filter((linked) => linked !== splitOff);
    const published = withMerges(change, earlier);
    const content = { profile, deletions, unpublished: published.linked };
    return this.#commit(ucid, published, text.length, (pending) => liveSource(content, pending, text));
  }

  /** The commit of a deletion: writes the tombstone, together with the change to be published. False on a conflict. */
  commitDeletion(tombstone: Tombstone, change: ProfileChange): Promise<boolean> {
    const { ucid, deletedAt } = tombstone;
    return this.#commit(ucid, change, 0, (pending) => deletedSource(tombstone, true, deletedAt, pending));
  }

  /**
   * After a merge: removes the content of the merged profiles' documents, and points their identity claims directly to the
   * surviving profile. Optional: other operations cope without it, and the sweeper does it later. A claim is moved only if
   * it is unchanged since before the documents were stripped. A split writes the document first and then the claims, so
   * no claim is taken away from it.
   */
  async tidyMerge(joining: readonly Joining[], to: string): Promise<void> {
    const { documents, locations } = this.#context;
    const hashes = joining.flatMap(({ document: { content } }) =>
      content.profile.identities.map((identity) => identityHash(content.profile, identity)),
    );
    const from = new Set(joining.map(({ ucid }) => ucid));
    const found = await documents.read(hashes.map(identityClaimId));
    if (!(await this.#all(joining.map(({ ucid }) => ({ ucid, source: mergedSource(to) }))))) return;
    const moved = hashes.flatMap((hash, index): readonly DocumentWrite[] => {
      locations.set(hash, to);
      const stored = found[index];
      const before = stored === undefined ? undefined : identityClaimOf(stored);
      if (before === undefined || !from.has(before.ucid)) return [];
      const source = identityClaimSource({ ...before, ucid: to });
      return [{ id: identityClaimId(hash), expected: before.stored.version, source }];
    });
    await documents.write(moved);
  }

  /** Ucids merged into the profile by an earlier change that may not be published: this change has to carry them. */
  async #unpublishedMerges(document: Commit['document']): Promise<readonly string[]> {
    if (document?.pending === undefined || document.content.unpublished.length === 0) return [];
    const isPublished = await this.#context.publisher.isPublished(document.pending);
    return isPublished ? [] : document.content.unpublished;
  }

  async #commit(
    ucid: string,
    change: ProfileChange,
    characters: number,
    sourceOf: (pending: Pending) => DocumentSource,
  ): Promise<boolean> {
    const { publisher, durable } = this.#context;
    const open = await publisher.begin();
    try {
      const version = await this.put(ucid, sourceOf(open.pending));
      if (version === undefined) {
        publisher.notCommitted(open);
        return false;
      }
      publisher.committed(open, change, characters);
      durable.note(ucid, version);
      return true;
    } catch (error) {
      publisher.unknown(open);
      throw error;
    }
  }

  /** Writes documents of profiles at the versions read or written last, and others beside them. False on a conflict. */
  async #all(steps: readonly ProfileStep[], others: readonly DocumentWrite[] = []): Promise<boolean> {
    if (steps.length + others.length === 0) return true;
    const writes = steps.map(({ ucid, source }) => ({
      id: profileId(ucid),
      expected: this.#written.get(ucid) ?? this.#view.document(ucid)?.stored.version ?? ('absent' as const),
      source,
    }));
    const results = await this.#context.documents.write([...writes, ...others]);
    for (const [index, { ucid }] of steps.entries()) {
      const result = results[index];
      if (result !== undefined && result !== 'conflict') this.#written.set(ucid, result);
    }
    return !results.includes('conflict');
  }
}

/** The change with ucids that an earlier change merged. */
export function withMerges(change: ProfileChange, merges: readonly string[]): ProfileChange {
  return merges.length === 0
    ? change
    : { ...change, kind: 'merged', linked: [...new Set([...merges, ...change.linked])].sort() };
}

interface ProfileStep {
  readonly ucid: string;
  readonly source: DocumentSource;
}

interface ReadIdentityClaim {
  readonly hash: string;
  readonly before: IdentityClaim;
}

/**
 * Reads the identity claims of identities that a profile is about to lose. They are read before the profile is written: an
 * operation that points one of them elsewhere, or back, does so later, and then the removal conflicts.
 */
export async function readIdentityClaims(
  hashes: readonly string[],
  { documents, locations }: OperationContext,
): Promise<readonly ReadIdentityClaim[]> {
  if (hashes.length === 0) return [];
  const stored = await documents.read(hashes.map(identityClaimId));
  for (const hash of hashes) locations.delete(hash);
  return hashes.flatMap((hash, at) => {
    const one = stored[at];
    return one === undefined ? [] : [{ hash, before: identityClaimOf(one) }];
  });
}

/**
 * Removes identity claims in the background, once the profile is written without their identities. A claim with the time of
 * a deletion stays, because it keeps that time. A claim that stays does no harm: the profile does not list the identity.
 */
export function releaseIdentityClaims(
  identityClaims: readonly ReadIdentityClaim[],
  { profile, deletions }: Pick<Content, 'profile' | 'deletions'>,
  { documents, locations, background }: OperationContext,
): void {
  const ucids = new Set([profile.ucid, ...profile.linked]);
  const removable = identityClaims.filter(({ hash, before }) => {
    locations.delete(hash);
    return ucids.has(before.ucid) && before.deletedAt === 0 && deletions[hash] === undefined;
  });
  if (removable.length === 0) return;
  const removing = documents.write(
    removable.map(({ hash, before }) => ({
      id: identityClaimId(hash),
      expected: before.stored.version,
      source: 'removed' as const,
    })),
  );
  background(removing, 'claims of removed identities could not be deleted and remain');
}

/**
 * Fences out the merge that froze the document, if it has not happened: it never will. No fence is needed where the merge
 * leads to `ucid`, which the operation writes anyway.
 */
export function fencesOfFrozen(
  document: LiveDocument | RedirectDocument,
  ucid: string | undefined,
  view: View,
): readonly Fence[] {
  if (document.state === 'live' || document.to === ucid) return [];
  const survivor = view.document(document.to);
  if (survivor?.state === 'deleted') return fencesOfDeleted(document.to, view);
  return survivor === undefined || survivor.state === 'folded' ? [] : [{ ucid: document.to }];
}

export function fencesOfDeleted(ucid: string, view: View): readonly Fence[] {
  const document = view.document(ucid);
  return document?.state === 'deleted' && document.dirty ? [{ ucid }] : [];
}
