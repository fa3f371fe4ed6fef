import { setTimeout as pause } from 'node:timers/promises';
import {
  type Clock,
  chargeOf,
  identityHash,
  isTooOld,
  LeakyShares,
  type Logger,
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
  Unavailable,
} from '@tributary/core';
import { type ElasticsearchAccess, ElasticsearchConnection, indexPrefix } from '../../elasticsearch/index.ts';
import { ChangePublisher } from './change-publisher.ts';
import { ElasticsearchDocuments } from './engine/elasticsearch-documents.ts';
import { type CachedLocations, LocationTable } from './operations/cached-locations.ts';
import { DurableVersions, type OperationContext, retryOnConflict } from './operations/context.ts';
import { deleteProfiles } from './operations/deletion.ts';
import { attemptSearch } from './operations/search.ts';
import { attemptSplit } from './operations/split.ts';
import { attemptUnlink } from './operations/unlink.ts';
import { attemptUpsert } from './operations/upsert.ts';
import { Sweeper } from './sweeper.ts';

const SWEEP_EVERY_MS = 5_000;

export interface ElasticsearchProfileStoreOptions {
  readonly access: ElasticsearchAccess;
  /** Distinguishes the indices of installations that share a cluster. */
  readonly prefix: string;
  readonly clock: Clock;
  /** How long the time of an identity's deletion is kept, ms. */
  readonly retentionMs: number;
  readonly publish: PublishProfileChanges;
  readonly logger: Logger;
  /** Primary shards, when this process creates the index. Default 1. */
  readonly shards?: number;
  /** After how long a request to Elasticsearch is `Unavailable`, ms. Default 10,000. */
  readonly timeoutMs?: number;
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
  const { access, prefix, clock, retentionMs, publish, logger, shards = 1, timeoutMs } = options;
  const connection = await ElasticsearchConnection.open({
    access,
    logger,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  const store = new DocumentProfileStore({
    documents: new ElasticsearchDocuments(
      connection,
      { alias: `${indexPrefix(prefix)}profiles`, shards },
      logger,
    ),
    publish,
    clock,
    pause: (ms) => pause(ms),
    random: Math.random,
    newUcid: newId,
    logger,
    retentionMs,
  });
  const sweeping = sweepEvery(options.sweepEveryMs ?? SWEEP_EVERY_MS, store, logger);
  let closed: Promise<void> | undefined;
  return {
    upsert: (write) => store.upsert(write),
    search: (search) => store.search(search),
    delete: (deletion) => store.delete(deletion),
    unlink: (unlink) => store.unlink(unlink),
    split: (split) => store.split(split),
    holdsProfiles: (scope) => store.holdsProfiles(scope),
    close() {
      closed ??= sweeping
        .stop()
        .then(() => store.close())
        .then(() => connection.close());
      return closed;
    },
  };
}

/** Runs one sweep after the other; a failed sweep is logged, and the next one tries again. */
function sweepEvery(everyMs: number, store: DocumentProfileStore, logger: Logger): { stop(): Promise<void> } {
  let stopped = false;
  let sweeping: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  const sweep = () => {
    sweeping = store
      .sweep()
      .catch((error) => logger.debug({ error: messageOf(error) }, 'profiles could not be swept'))
      .finally(() => {
        if (!stopped) timer = setTimeout(sweep, everyMs).unref();
      });
  };
  sweep();
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
      return sweeping;
    },
  };
}

/** Identities of which the profile is cached; the table takes 96 MiB once it is full. */
const CACHED_LOCATIONS = 2 ** 22;
/** Characters of large profiles that an organization may read or rewrite a second in the requests that all share. */
const LARGE_PER_SECOND = 64 * 1024;
/** Profiles of which the durable version is known; about 200 bytes each. */
const DURABLE_VERSIONS = 100_000;

export interface DocumentStoreOptions
  extends Pick<
    OperationContext,
    'documents' | 'clock' | 'pause' | 'random' | 'newUcid' | 'logger' | 'retentionMs'
  > {
  readonly publish: PublishProfileChanges;
  /** Default: a table for about four million identities. */
  readonly locations?: CachedLocations;
}

/**
 * A profile store on documents that are read by id and compared-and-set. An operation is a function in `operations/`: it
 * makes one attempt, which is repeated while it conflicts with others.
 */
export class DocumentProfileStore implements ProfileStore {
  readonly #context: OperationContext;
  readonly #sweeper: Sweeper;
  readonly #shards: WriteShards;
  readonly #running = new Set<Promise<unknown>>();
  readonly #shares: LeakyShares;
  #closed: Promise<void> | undefined;

  constructor({ publish, locations, ...options }: DocumentStoreOptions) {
    const { documents, clock, pause, newUcid: newId, logger } = options;
    this.#shares = new LeakyShares({
      perSecond: LARGE_PER_SECOND,
      burst: 0,
      elapsed: () => performance.now(),
    });
    this.#context = {
      ...options,
      charge: (org, read, written) => this.#shares.charge(String(org), chargeOf(read, written).charge ?? 0),
      publisher: new ChangePublisher({ documents, publish, clock, pause, newId, logger }),
      locations: locations ?? new LocationTable(CACHED_LOCATIONS),
      durable: new DurableVersions(documents, clock, DURABLE_VERSIONS),
      background: (work) => void this.#track(work),
    };
    this.#sweeper = new Sweeper(this.#context, publish);
    this.#shards = new WriteShards((writes) =>
      this.#retry(() => attemptUpsert(writes, this.#contextOf(writes[0]))),
    );
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
    return this.#run(() => this.#sweeper.sweep());
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
    await this.#context.publisher.close();
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
    if (documents.apartFor === undefined || !this.#shares.isInUse(owner)) return this.#context;
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
