import { type Profile, type ProfileScope, parseExact } from '@tributary/core';

/** Version of a document as it was read or written. It grows with every write; no two contents have the same one. */
export interface DocumentVersion {
  readonly seqNo: number;
  readonly primaryTerm: number;
}

export function isSameVersion(one: DocumentVersion | undefined, other: DocumentVersion): boolean {
  return one?.seqNo === other.seqNo && one.primaryTerm === other.primaryTerm;
}

/** The fields of a stored document. `deleted_ts` and `body` are not indexed, so no query can use them. */
export interface DocumentSource {
  readonly state: 'claim' | 'live' | 'redirect' | 'folded' | 'deleted' | 'publisher';
  readonly org?: number;
  readonly region?: string;
  /** Epoch ms. */
  readonly updated_ts?: number;
  /** Whether redirects to a tombstone may still hold personal data. */
  readonly dirty?: boolean;
  /** The publisher of the document's last change, and the number of the change with that publisher. */
  readonly pending_by?: string;
  readonly pending_n?: number;
  /** When the identity of an identity claim was last deleted, epoch ms. */
  readonly deleted_ts?: number;
  readonly body: string;
}

export interface StoredDocument {
  readonly version: DocumentVersion;
  readonly source: DocumentSource;
}

/** One compare-and-set: applied if the document is at `expected` (`absent`: if it does not exist), else a conflict. */
export interface DocumentWrite {
  readonly id: string;
  readonly expected: DocumentVersion | 'absent';
  /** `removed` deletes the document; it needs an expected version. */
  readonly source: DocumentSource | 'removed';
}

/** The version that was written; `conflict` when the document was not at the expected one. */
export type WriteResult = DocumentVersion | 'conflict';

/** A query of the sweeper. Writes of the last seconds may be missing from its result. */
export interface DocumentQuery {
  readonly state?: readonly DocumentSource['state'][];
  readonly dirty?: boolean;
  /** Upper bound of `updated_ts`, exclusive. */
  readonly before?: number;
  readonly pending?: { readonly by: string; readonly after: number };
  /** Most results; those with the lowest `updated_ts` come first. */
  readonly limit: number;
}

/**
 * Documents by id: all that the store needs of Elasticsearch.
 *
 * - A read shows every write that was acknowledged before it began. It may also show a write that is **not durable yet**
 *   and that a crash of a node takes back.
 * - An acknowledged write (`DocumentVersion`) is durable, and so are all earlier versions of the document.
 * - The writes of one call are independent: each succeeds or conflicts on its own, in any order.
 *
 * Errors: `Unavailable` from `write` when the outcome of any of its writes is unknown: each may have been applied, may be
 * applied later, or never. `Unavailable` from `read` and `find` when the engine does not answer.
 */
export interface Documents {
  /** In the order of `ids`; undefined for a document that does not exist. */
  read(ids: readonly string[]): Promise<readonly (StoredDocument | undefined)[]>;
  /** Results in the order of `writes`. No document may occur twice. */
  write(writes: readonly DocumentWrite[]): Promise<readonly WriteResult[]>;
  find(query: DocumentQuery): Promise<readonly string[]>;
  /**
   * Whether a profile exists, in the scope if one is given: a `live` document, or a `redirect` that may not have been
   * merged yet. Sees every write that was acknowledged before the call.
   */
  holdsLive(scope: ProfileScope | undefined): Promise<boolean>;
  /**
   * The same documents through requests of the owner's own, a few at a time, so that its large documents delay no other
   * owner's. Absent: all owners share requests.
   */
  apartFor?(owner: string): Pick<Documents, 'read' | 'write'>;
}

/** The document of a profile that is not deleted. */
export interface Content {
  readonly profile: Profile;
  /**
   * When identities of the profile were last deleted, together with an earlier profile: epoch ms by identity claim hash.
   * Events received before that time do not bring the deleted data back.
   */
  readonly deletions: Readonly<Record<string, number>>;
  /** Ucids merged into this profile by changes that may not be published yet. */
  readonly unpublished: readonly string[];
  /** A frozen profile that was split off has a change that is not published yet. It is published when the profile is live. */
  readonly untold?: true;
}

/** The change that a document carries: its publisher and its number there. Absent before the first published change. */
export interface Pending {
  readonly by: string;
  readonly n: number;
}

/**
 * Kept in place of a deleted profile, or to fence a ucid that must never become a profile. Contains no
 * personal data.
 */
export interface Tombstone extends ProfileScope {
  readonly ucid: string;
  readonly version: number;
  /** Epoch ms; 0 for a ucid that never became a profile. */
  readonly deletedAt: number;
  readonly linked: readonly string[];
  /** Hashes of the identities of the profile; `claims` is the stored name. */
  readonly claims: readonly string[];
  /**
   * Hashes of identities unlinked before the deletion. Their identity claims may still lead here, but they were not deleted.
   */
  readonly unlinked?: readonly string[];
}

interface Stored {
  /** The document as it was read. */
  readonly stored: StoredDocument;
}
interface WithPending {
  readonly pending?: Pending | undefined;
}
export type LiveDocument = Stored & WithPending & { readonly state: 'live'; readonly content: Content };
/**
 * Frozen in order to be merged into the profile `to`. The merge has happened when that profile lists it in `linked`;
 * until then this is a profile of its own.
 */
export type RedirectDocument = Stored &
  WithPending & { readonly state: 'redirect'; readonly to: string; readonly content: Content };
/** Merged into another profile, for as long as that one lists it; `folded` is the stored state. */
type MergedDocument = Stored & { readonly state: 'folded'; readonly to: string };
/** `dirty`: the tombstone may not be durable yet, and redirects to it may still hold personal data. */
export type DeletedDocument = Stored &
  WithPending & { readonly state: 'deleted'; readonly dirty: boolean; readonly tombstone: Tombstone };
export type ProfileDocument = LiveDocument | RedirectDocument | MergedDocument | DeletedDocument;

/** An identity claim: the identity leads to a ucid. Readers believe it only if the profile lists the identity. */
export interface IdentityClaim extends Stored {
  readonly ucid: string;
  /**
   * When a profile with the identity was last deleted, epoch ms; 0 if never, or if the identity claim still leads to the
   * tombstone. It is kept here from the moment the claim leads elsewhere, because the new profile may never be written.
   */
  readonly deletedAt: number;
}

export function identityClaimId(claim: string): string {
  return `c:${claim}`;
}

export function profileId(ucid: string): string {
  return `p:${ucid}`;
}

export function identityClaimSource({
  ucid,
  deletedAt,
}: Pick<IdentityClaim, 'ucid' | 'deletedAt'>): DocumentSource {
  return { state: 'claim', ...(deletedAt === 0 ? {} : { deleted_ts: deletedAt }), body: ucid };
}

export function identityClaimOf(stored: StoredDocument): IdentityClaim {
  const { body: ucid, deleted_ts: deletedAt = 0 } = stored.source;
  return { stored, ucid, deletedAt };
}

/** `text`: the JSON of the profile, if the caller has it already. */
export function liveSource(content: Content, pending: Pending | undefined, text?: string): DocumentSource {
  return { ...contentSource('live', content, pending), body: bodyOf(content, undefined, text) };
}

export function redirectSource(content: Content, pending: Pending | undefined, to: string): DocumentSource {
  return { ...contentSource('redirect', content, pending), body: bodyOf(content, to) };
}

export function mergedSource(to: string): DocumentSource {
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

/** Parses a stored document of a profile; undefined if there is none. */
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

/** Progress of a publisher: the number up to which all of its changes are published. */
interface Publisher {
  readonly published: number;
}

export function publisherId(id: string): string {
  return `i:${id}`;
}

/** `aliveAt`: epoch ms; 0 for a publisher that has ended and left nothing. */
export function publisherSource(publisher: Publisher, aliveAt: number): DocumentSource {
  return { state: 'publisher', updated_ts: aliveAt, body: JSON.stringify(publisher) };
}

export function parsePublisher({ source }: StoredDocument): Publisher {
  return JSON.parse(source.body) as Publisher;
}
