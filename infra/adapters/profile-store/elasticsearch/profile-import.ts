import { hash } from 'node:crypto';
import { identityHash } from '@tributary/core';
import {
  ElasticsearchConnection,
  type ElasticsearchStoreOptions,
  indexPrefix,
} from '../../elasticsearch/index.ts';
import type { DeletedExport, LiveExport, UnpublishedChange } from '../sqlite/profile-export.ts';
import {
  type DocumentSource,
  deletedSource,
  identityClaimId,
  identityClaimSource,
  liveSource,
  mergedSource,
  type Pending,
  profileId,
  publisherId,
  publisherSource,
} from './documents.ts';
import { ElasticsearchDocuments } from './engine.ts';

type LiveProfile = Omit<LiveExport, 'row'>;
/** A deleted profile, or an identity that was deleted and taken from a later profile. */
type DeletedProfile = Omit<DeletedExport, 'row'>;

interface NamedDocument {
  readonly id: string;
  readonly source: DocumentSource;
}

interface ProfileImportOptions extends ElasticsearchStoreOptions {
  /** Primary shards of a new index. */
  readonly shards: number;
  /** Distinguishes the unpublished changes of this import from those of processes. */
  readonly importId: string;
}

/** Writes the profiles of another store into an index that nothing else writes to. */
export class ProfileImport {
  readonly #connection: ElasticsearchConnection;
  readonly #documents: ElasticsearchDocuments;
  readonly #publisher: string;

  static async open(options: ProfileImportOptions): Promise<ProfileImport> {
    return new ProfileImport(await ElasticsearchConnection.open(options), options);
  }

  private constructor(connection: ElasticsearchConnection, options: ProfileImportOptions) {
    const alias = `${indexPrefix(options.prefix)}profiles`;
    this.#connection = connection;
    this.#documents = new ElasticsearchDocuments(
      connection,
      { alias, shards: options.shards },
      options.logger,
    );
    this.#publisher = `import-${options.importId}`;
  }

  /** Has to be called before the first profile with an unpublished change is written. May be repeated. */
  async begin(now: number): Promise<void> {
    const source = publisherSource({ published: 0 }, now);
    await this.#documents.write([{ id: publisherId(this.#publisher), expected: 'absent', source }]);
  }

  /**
   * Writes the documents of these profiles where they are missing. May be repeated. `unpublished`: changes that the other store
   * did not publish; the sweeper of the first process does.
   */
  async write(
    profiles: readonly (LiveProfile | DeletedProfile)[],
    unpublished: ReadonlyMap<string, UnpublishedChange>,
  ): Promise<void> {
    const documents = this.#documentsOf(profiles, unpublished);
    await this.#documents.write(documents.map((one) => ({ ...one, expected: 'absent' as const })));
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  #documentsOf(
    profiles: readonly (LiveProfile | DeletedProfile)[],
    unpublished: ReadonlyMap<string, UnpublishedChange>,
  ): readonly NamedDocument[] {
    return profiles.flatMap((one) => {
      const ucid = one.kind === 'live' ? one.profile.ucid : one.ucids[0];
      const change = ucid === undefined ? undefined : unpublished.get(ucid);
      const pending = change && { by: this.#publisher, n: change.number };
      return one.kind === 'live' ? liveDocuments(one, change, pending) : deletedDocuments(one, pending);
    });
  }
}

/** A raw and a hashed e-mail address of a profile may be one identity. */
function liveDocuments(
  { profile, text, deletions }: LiveProfile,
  change: UnpublishedChange | undefined,
  pending: Pending | undefined,
): readonly NamedDocument[] {
  const { ucid, identities, linked } = profile;
  const unpublished = (change?.linked ?? []).filter((other) => linked.includes(other));
  const hashes = new Set(identities.map((identity) => identityHash(profile, identity)));
  return [
    { id: profileId(ucid), source: liveSource({ profile, deletions, unpublished }, pending, text) },
    ...linked.map((other) => ({ id: profileId(other), source: mergedSource(ucid) })),
    ...[...hashes].map((hash) => ({
      id: identityClaimId(hash),
      source: identityClaimSource({ ucid, deletedAt: 0 }),
    })),
  ];
}

function deletedDocuments(deletion: DeletedProfile, pending: Pending | undefined): readonly NamedDocument[] {
  const { org, region, version, deletedAt, ucids, hashes, unclaimed } = deletion;
  const [ucid = ucidOf(hashes), ...linked] = ucids;
  const tombstone = { org, region, ucid, version, deletedAt, linked, claims: [...new Set(hashes)] };
  return [
    { id: profileId(ucid), source: deletedSource(tombstone, false, deletedAt, pending) },
    ...linked.map((other) => ({ id: profileId(other), source: mergedSource(ucid) })),
    ...[...new Set(unclaimed)].map((hash) => ({
      id: identityClaimId(hash),
      source: identityClaimSource({ ucid, deletedAt: 0 }),
    })),
  ];
}

/** A ucid that no profile ever had, for the deletion of an identity. The same whenever the deletion is imported. */
function ucidOf(hashes: readonly string[]): string {
  const digits = hash('sha256', `deleted ${hashes.join(' ')}`, 'hex');
  const [a, b, c, d, e] = [
    [0, 8],
    [8, 12],
    [13, 16],
    [17, 20],
    [20, 32],
  ].map(([from, to]) => digits.slice(from, to));
  return `${a}-${b}-8${c}-8${d}-${e}`;
}
