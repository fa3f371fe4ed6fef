import { setTimeout as pause } from 'node:timers/promises';
import {
  type Clock,
  chargeOf,
  checkFoundSize,
  identityHash,
  isTooOld,
  messageOf,
  newId,
  type Profile,
  type ProfileDeletion,
  type ProfileDeletionOutcome,
  type ProfileScope,
  type ProfileSearch,
  type ProfileSplit,
  type ProfileSplitOutcome,
  type ProfileStore,
  type ProfileUnlink,
  type ProfileUnlinkOutcome,
  type ProfileWrite,
  type ProfileWriteOutcome,
  type PublishProfileChanges,
  repeat,
  TokenBuckets,
  Unavailable,
  withoutMerged,
} from '@tributary/core';
import {
  ElasticsearchConnection,
  type ElasticsearchStoreOptions,
  indexPrefix,
} from '../../elasticsearch/index.ts';
import {
  type CachedLocations,
  CONFLICT,
  type Conflict,
  DurableVersions,
  type HashedIdentity,
  holds,
  LocationTable,
  type OperationContext,
  type Root,
  retryOnConflict,
  View,
} from './context.ts';
import type { LiveDocument, RedirectDocument } from './documents.ts';
import { ElasticsearchDocuments } from './engine.ts';
import { ChangePublisher } from './publisher.ts';
import { attemptSplit, attemptUnlink, deleteProfiles } from './removal.ts';
import { sweep } from './sweeper.ts';
import { attemptUpsert } from './upsert.ts';

const SWEEP_EVERY_MS = 5_000;

export interface ElasticsearchProfileStoreOptions extends ElasticsearchStoreOptions {
  readonly clock: Clock;
  /** How long the time of an identity's deletion is kept, ms. */
  readonly retentionMs: number;
  readonly publish: PublishProfileChanges;
  /** Primary shards, when this process creates the index. Default 1. */
  readonly shards?: number;
  /** Pause between two sweeps, ms; the first begins at once. Default 5,000. */
  readonly sweepEveryMs?: number;
}

/**
 * A `ProfileStore` in Elasticsearch: one index; documents are read by id and compared-and-set; only the sweeper searches.
 * `InvalidInput` where the credentials are wrong. While the cluster does not answer, opening succeeds and every call is
 * `Unavailable`.
 */
export async function openElasticsearchProfileStore(
  options: ElasticsearchProfileStoreOptions,
): Promise<ProfileStore> {
  const { prefix, publish, clock, logger, retentionMs, shards = 1, sweepEveryMs = SWEEP_EVERY_MS } = options;
  const connection = await ElasticsearchConnection.open(options);
  const index = { alias: `${indexPrefix(prefix)}profiles`, shards };
  return new DocumentProfileStore({
    documents: new ElasticsearchDocuments(connection, index, logger),
    publish,
    clock,
    pause: (ms) => pause(ms),
    random: Math.random,
    newUcid: newId,
    logger,
    retentionMs,
    sweepEveryMs,
    release: () => connection.close(),
  });
}

/** Identities of which the profile is cached; the table takes 96 MiB once it is full. */
const CACHED_LOCATIONS = 2 ** 22;
/**
 * Characters of large profiles that an organization may read or rewrite a second in the requests that all share, beyond which it
 * has requests of its own. Protects the latency of others; how much is read and rewritten is bounded by gateway and stage.
 */
const LARGE_PER_SECOND = 64 * 1024;
/** Profiles of which the durable version is known; about 200 bytes each. */
const DURABLE_VERSIONS = 100_000;

interface DocumentStoreOptions
  extends Pick<
    OperationContext,
    'documents' | 'clock' | 'pause' | 'random' | 'newUcid' | 'logger' | 'retentionMs'
  > {
  readonly publish: PublishProfileChanges;
  /** Default: a table for about four million identities. */
  readonly locations?: CachedLocations;
  /** Time between two sweeps, ms; the first begins at once. Absent: the caller sweeps. */
  readonly sweepEveryMs?: number;
  /** Called when the store is closed. */
  readonly release?: () => Promise<void>;
}

/**
 * A profile store on documents that are read by id and compared-and-set. An operation is a function `attempt…`,
 * which is repeated while it conflicts with others.
 */
export class DocumentProfileStore implements ProfileStore {
  readonly #context: OperationContext;
  readonly #publish: PublishProfileChanges;
  readonly #shards: WriteShards;
  readonly #running = new Set<Promise<unknown>>();
  readonly #shares: TokenBuckets;
  readonly #release: (() => Promise<void>) | undefined;
  readonly #sweeps: { close(): Promise<void> } | undefined;
  #closed: Promise<void> | undefined;

  constructor({ publish, locations, sweepEveryMs, release, ...options }: DocumentStoreOptions) {
    const { documents, clock, pause, newUcid: newId, logger } = options;
    this.#shares = new TokenBuckets({
      perSecond: LARGE_PER_SECOND,
      burst: 0,
      clock: () => performance.now(),
    });
    this.#context = {
      ...options,
      charge: (org, read, written) => this.#shares.charge(String(org), chargeOf(read, written).charge ?? 0),
      publisher: new ChangePublisher({ documents, publish, clock, pause, newId, logger }),
      locations: locations ?? new LocationTable(CACHED_LOCATIONS),
      durable: new DurableVersions(documents, clock, DURABLE_VERSIONS),
      background: (work, failure) =>
        void this.#track(work.catch((error) => logger.debug({ error: messageOf(error) }, failure))),
    };
    this.#publish = publish;
    this.#shards = new WriteShards((writes) =>
      this.#retry(() => attemptUpsert(writes, this.#contextOf(writes[0]))),
    );
    this.#release = release;
    const sweepOnce = () =>
      this.sweep().catch((error: unknown) =>
        logger.debug({ error: messageOf(error) }, 'profiles could not be swept'),
      );
    if (sweepEveryMs !== undefined) this.#sweeps = repeat(sweepOnce, sweepEveryMs);
  }

  upsert(write: ProfileWrite): Promise<ProfileWriteOutcome> {
    const { clock, retentionMs } = this.#context;
    return this.#run(async () =>
      isTooOld(write, clock(), retentionMs)
        ? { kind: 'refused', reason: 'too_old' }
        : this.#shards.write(this.#shardOf(write), write),
    );
  }

  search(search: ProfileSearch): Promise<readonly Profile[]> {
    return this.#run(() => this.#retry(() => attemptSearch(search, this.#contextOf(search))));
  }

  holdsProfiles(scope: ProfileScope | undefined): Promise<boolean> {
    return this.#run(() => this.#context.documents.holdsLive(scope));
  }

  delete(deletion: ProfileDeletion): Promise<ProfileDeletionOutcome> {
    return this.#run(() => deleteProfiles(deletion, this.#contextOf(deletion)));
  }

  unlink(unlink: ProfileUnlink): Promise<ProfileUnlinkOutcome> {
    return this.#run(() => this.#retry(() => attemptUnlink(unlink, this.#contextOf(unlink))));
  }

  split(split: ProfileSplit): Promise<ProfileSplitOutcome> {
    return this.#run(() => this.#retry(() => attemptSplit(split, this.#contextOf(split))));
  }

  /** Completes operations that were interrupted, also those of other processes. */
  sweep(): Promise<void> {
    return this.#run(() => sweep(this.#context, this.#publish));
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    void this.#sweeps?.close();
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
    await this.#context.publisher.close();
    await this.#release?.();
  }

  /** The profile that the write probably concerns, by the cache; else the ucid or the first identity of the write. */
  #shardOf(write: ProfileWrite): string {
    const hashes = write.identities.map((identity) => identityHash(write, identity));
    for (const hash of hashes) {
      const ucid = this.#context.locations.get(hash);
      if (ucid !== undefined) return ucid;
    }
    return write.ucid ?? hashes[0] ?? '';
  }

  /** An organization that has read or rewritten large profiles lately has requests of its own. */
  #contextOf({ org }: { readonly org: number }): OperationContext {
    const { documents } = this.#context;
    const owner = String(org);
    if (documents.apartFor === undefined || this.#shares.isFull(owner)) return this.#context;
    const apart = documents.apartFor(owner);
    return {
      ...this.#context,
      documents: {
        read: apart.read,
        write: apart.write,
        find: (query) => documents.find(query),
        holdsLive: (scope) => documents.holdsLive(scope),
      },
    };
  }

  #retry<T>(attempt: Parameters<typeof retryOnConflict<T>>[1]): Promise<T> {
    return retryOnConflict(this.#context, attempt);
  }

  async #run<T>(operation: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) throw new Unavailable('the profiles are closed');
    return this.#track(operation());
  }

  #track<T>(operation: Promise<T>): Promise<T> {
    const tracked = operation.finally(() => this.#running.delete(tracked));
    this.#running.add(tracked);
    return tracked;
  }
}

/** Writes of one shard that one group has at most. */
const LONGEST_GROUP = 256;

type Writes = readonly [ProfileWrite, ...ProfileWrite[]];

interface WaitingWrite {
  readonly write: ProfileWrite;
  readonly resolve: (outcome: ProfileWriteOutcome) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Writes of this process to the same profile, carried out one group after the other, so that they do not conflict with
 * each other. Writes that arrive while a group is carried out form the next one: a hot profile costs one read and one
 * compare-and-set for many writes.
 */
class WriteShards {
  /** Resolves to the outcomes of the first writes of the list, one at least; the others are passed again. */
  readonly #carryOut: (writes: Writes) => Promise<readonly ProfileWriteOutcome[]>;
  readonly #shards = new Map<string, WaitingWrite[]>();

  constructor(carryOut: (writes: Writes) => Promise<readonly ProfileWriteOutcome[]>) {
    this.#carryOut = carryOut;
  }

  write(key: string, write: ProfileWrite): Promise<ProfileWriteOutcome> {
    return new Promise((resolve, reject) => {
      const waiting = { write, resolve, reject };
      const shard = this.#shards.get(key);
      if (shard !== undefined) {
        shard.push(waiting);
        return;
      }
      const started = [waiting];
      this.#shards.set(key, started);
      void this.#run(key, started);
    });
  }

  async #run(key: string, shard: WaitingWrite[]): Promise<void> {
    while (true) {
      const [first, ...rest] = shard.slice(0, LONGEST_GROUP);
      if (first === undefined) break;
      try {
        const outcomes = await this.#carryOut([first.write, ...rest.map(({ write }) => write)]);
        const done = shard.splice(0, outcomes.length);
        for (const [index, { resolve }] of done.entries()) resolve(outcomes[index] as ProfileWriteOutcome);
      } catch (error) {
        // When the engine does not answer, all waiting writes fail: each would wait for the same timeout again.
        const failed = shard.splice(0, error instanceof Unavailable ? shard.length : 1);
        for (const { reject } of failed) reject(error);
      }
    }
    this.#shards.delete(key);
  }
}

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
async function attemptSearch(
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
    const piece = await searchPiece(values, context);
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
  return withoutMerged([...found.values()]);
}

async function searchPiece(
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
  if (!(await durable.ensureDurable(roots))) return CONFLICT;
  return found;
}

function charactersOf({ stored }: LiveDocument | RedirectDocument): number {
  return stored.source.body.length;
}
