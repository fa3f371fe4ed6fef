import { type Identity, identityHash, type Profile, type ProfileScope, parseExact } from '@tributary/core';
import type { DocumentSource, StoredDocument } from './documents.ts';

/** Everything a profile that is not deleted keeps. */
export interface Content {
  readonly profile: Profile;
  /**
   * When an identity of it was deleted last, with the profile that had it then: epoch ms by claim hash. Data received
   * until then is not brought back by a late event.
   */
  readonly deletions: Readonly<Record<string, number>>;
  /** Ucids that became this one by changes which may not be published yet. */
  readonly unpublished: readonly string[];
  /** Of a frozen profile: it came back by a split, and that was not told yet. It is told when it is live. */
  readonly untold?: true;
}

/** Which change of which publisher the document carries; absent where nothing was ever published of it. */
export interface Pending {
  readonly by: string;
  readonly n: number;
}

/** What is left of a profile that was deleted, or of a ucid that must never become one. No personal data. */
export interface Tombstone extends ProfileScope {
  readonly ucid: string;
  readonly version: number;
  /** Epoch ms; 0 for a ucid that was claimed and never became a profile. */
  readonly deletedAt: number;
  readonly linked: readonly string[];
  /** Hashes of the identities that it had. */
  readonly claims: readonly string[];
  /** Hashes of identities that were unlinked from it: their claims may still lead here, and it never had them to delete. */
  readonly unlinked?: readonly string[];
}

interface At {
  /** As it was read. */
  readonly stored: StoredDocument;
}
interface WithPending {
  readonly pending?: Pending | undefined;
}
export type LiveDocument = At & WithPending & { readonly state: 'live'; readonly content: Content };
/**
 * Frozen on its way into another profile. Whether it has become part of that one is said there: by `linked`. Until it
 * is, this is a profile as live as any.
 */
export type RedirectDocument = At &
  WithPending & { readonly state: 'redirect'; readonly to: string; readonly content: Content };
/** Part of another profile, as long as that one lists it. */
export type FoldedDocument = At & { readonly state: 'folded'; readonly to: string };
/** `dirty`: what it says may not be durable yet, and redirects to it may still hold data. */
export type DeletedDocument = At &
  WithPending & { readonly state: 'deleted'; readonly dirty: boolean; readonly tombstone: Tombstone };
export type ProfileDocument = LiveDocument | RedirectDocument | FoldedDocument | DeletedDocument;

/** That an identity belongs to a ucid. */
export interface Claim extends At {
  readonly ucid: string;
  /**
   * When a profile that had the identity was deleted last, epoch ms; 0: never, as far as the claim was re-pointed since.
   * It stands here from when the claim leads away from the tombstone, as the profile that is to remember it may never
   * be written.
   */
  readonly deletedAt: number;
}

/** A name of fixed length that tells nothing of the person. */
export function claimHash(scope: ProfileScope, identity: Identity): string {
  return identityHash(scope, identity);
}

export function claimId(claim: string): string {
  return `c:${claim}`;
}

export function profileId(ucid: string): string {
  return `p:${ucid}`;
}

export function claimSource({ ucid, deletedAt }: Pick<Claim, 'ucid' | 'deletedAt'>): DocumentSource {
  return { state: 'claim', ...(deletedAt === 0 ? {} : { deleted_ts: deletedAt }), body: ucid };
}

export function claimOf(stored: StoredDocument): Claim {
  const { body: ucid, deleted_ts: deletedAt = 0 } = stored.source;
  return { stored, ucid, deletedAt };
}

/** What an index holds of a profile that nothing was ever merged into: for who fills an empty one. */
export function documentsOf(
  profile: Profile,
): readonly { readonly id: string; readonly source: DocumentSource }[] {
  const { ucid, identities } = profile;
  return [
    { id: profileId(ucid), source: liveSource({ profile, deletions: {}, unpublished: [] }, undefined) },
    ...identities.map((identity) => ({
      id: claimId(claimHash(profile, identity)),
      source: claimSource({ ucid, deletedAt: 0 }),
    })),
  ];
}

/** `text`: the JSON of the profile, where it is at hand. */
export function liveSource(content: Content, pending: Pending | undefined, text?: string): DocumentSource {
  return { ...contentSource('live', content, pending), body: bodyOf(content, undefined, text) };
}

export function redirectSource(content: Content, pending: Pending | undefined, to: string): DocumentSource {
  return { ...contentSource('redirect', content, pending), body: bodyOf(content, to) };
}

export function foldedSource(to: string): DocumentSource {
  return { state: 'folded', body: JSON.stringify({ to }) };
}

export function deletedSource(
  tombstone: Tombstone,
  dirty: boolean,
  now: number,
  pending: Pending | undefined,
): DocumentSource {
  return {
    state: 'deleted',
    updated_ts: now,
    dirty,
    ...pendingFields(pending),
    body: JSON.stringify(tombstone),
  };
}

/** The profile of a stored document; undefined where none is. */
export function profileDocumentOf(stored: StoredDocument | undefined): ProfileDocument | undefined {
  if (stored === undefined) return undefined;
  const { source } = stored;
  const pending = pendingOf(source);
  const body = parseExact(source.body);
  switch (source.state) {
    case 'live':
      return { state: 'live', stored, pending, content: body as Content };
    case 'redirect': {
      const { to, ...content } = body as Content & { readonly to: string };
      return { state: 'redirect', stored, pending, to, content };
    }
    case 'folded':
      return { state: 'folded', stored, to: (body as { readonly to: string }).to };
    case 'deleted':
      return {
        state: 'deleted',
        stored,
        pending,
        dirty: source.dirty !== false,
        tombstone: body as Tombstone,
      };
    default:
      return undefined;
  }
}

function contentSource(
  state: 'live' | 'redirect',
  { profile }: Content,
  pending: Pending | undefined,
): Omit<DocumentSource, 'body'> {
  const { org, region, updated_ts } = profile;
  return { state, org, region, updated_ts, ...pendingFields(pending) };
}

function bodyOf({ profile, deletions, unpublished, untold }: Content, to?: string, text?: string): string {
  const rest = JSON.stringify({ to, deletions, unpublished, untold });
  return `${rest.slice(0, -1)},"profile":${text ?? JSON.stringify(profile)}}`;
}

function pendingFields(pending: Pending | undefined): Pick<DocumentSource, 'pending_by' | 'pending_n'> {
  return pending === undefined ? {} : { pending_by: pending.by, pending_n: pending.n };
}

function pendingOf({ pending_by: by, pending_n: n }: DocumentSource): Pending | undefined {
  return by === undefined || n === undefined ? undefined : { by, n };
}
