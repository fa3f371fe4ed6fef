import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type Charged,
  type Clock,
  forgetDeletionsBefore,
  identitiesToLookUp,
  isTooOld,
  type Logger,
  type Metrics,
  messageOf,
  newId,
  PartialDeletion,
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
  parseExact,
  TributaryError,
  Unavailable,
} from '@tributary/core';
import { openDatabase, translateSqliteError } from '../../sqlite/database.ts';
import { deletionParts } from '../deletion-parts.ts';
import { Outbox } from './outbox.ts';
import { ProfileReader } from './profile-reader.ts';
import { ProfileWriter } from './profile-writer.ts';
import { Publisher, PublisherLease } from './publisher.ts';
import { identityDigest, prepareSchema } from './schema.ts';

const READ_CACHE_KIB = 16 * 1024;
/** Profiles of this length are read one in each turn of the event loop. */
const LARGE_CHARACTERS = 32 * 1024;
/** The owner of the store's own requests to the writer. */
const STORE = 'store';

export interface SqliteProfileStoreOptions {
  /** A folder of its own; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** How long the time of an identity's deletion is kept, ms. */
  readonly retentionMs: number;
  readonly publish: PublishProfileChanges;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** How long a write waits for other processes, ms, before it is `Unavailable`. Default 5,000. */
  readonly busyTimeoutMs?: number;
  /** How often deletions past the retention are forgotten, ms. Default one minute; `false` leaves it to other processes. */
  readonly forgetEveryMs?: number | false;
}

/** Opens the embedded profiles, and creates them if missing. `Unavailable` when the file cannot be opened now. */
export async function openSqliteProfileStore(options: SqliteProfileStoreOptions): Promise<ProfileStore> {
  try {
    return new SqliteProfileStore(options);
  } catch (error) {
    throw translateSqliteError(error);
  }
}

/** One database file: writes in a thread, reads in the calling thread, and one publisher among all processes. */
class SqliteProfileStore implements ProfileStore {
  readonly #options: SqliteProfileStoreOptions;
  readonly #writer: ProfileWriter;
  readonly #reader: ProfileReader;
  readonly #publisher: Publisher;
  readonly #closeReads: () => void;
  readonly #forgetTimer: NodeJS.Timeout | undefined;
  readonly #running = new Set<Promise<unknown>>();
  #closed: Promise<void> | undefined;
  #lastLarge: Promise<unknown> = Promise.resolve();

  constructor(options: SqliteProfileStoreOptions) {
    this.#options = options;
    const { folder, logger, metrics, publish, busyTimeoutMs = 5_000, forgetEveryMs = 60_000 } = options;
    const file = join(folder, 'profiles.db');
    prepareFile(file, busyTimeoutMs);
    const lease = new PublisherLease(join(folder, 'publishing.db'), busyTimeoutMs);
    const reads = openReads(file, busyTimeoutMs, lease);
    this.#closeReads = () => reads.close();
    this.#reader = new ProfileReader(reads);
    this.#writer = new ProfileWriter({ file, busyTimeoutMs }, logger);
    this.#publisher = new Publisher({
      outbox: new Outbox(reads),
      lease,
      publish,
      remove: async (upTo) => {
        await this.#writer.ask(STORE, { kind: 'published', upTo });
      },
      logger,
      metrics,
    });
    this.#forgetTimer =
      forgetEveryMs === false ? undefined : setInterval(() => void this.#forget(), forgetEveryMs).unref();
  }

  upsert(write: ProfileWrite): Promise<ProfileWriteOutcome> {
    return this.#during(async () => {
      const now = this.#options.clock();
      if (isTooOld(write, now, this.#options.retentionMs)) return { kind: 'refused', reason: 'too_old' };
      const digests = identitiesToLookUp(write).map((identity) =>
        identityDigest(write, identity).toString('hex'),
      );
      const request = { kind: 'upsert', write, digests, ucid: newId(), now } as const;
      const answer = await this.#writer.ask(ownerOf(write), request);
      if (answer.kind === 'refused') return answer;
      if (answer.kind !== 'written') throw new Error(`an upsert was answered with ${answer.kind}`);
      if (answer.changed) this.#publisher.wake();
      return {
        kind: 'written',
        profile: await this.#profileOf(answer.profile),
        leftOut: answer.leftOut,
        ...chargedBy(answer),
      };
    });
  }

  search(search: ProfileSearch): Promise<readonly Profile[]> {
    return this.#during(() => this.#reader.search(search));
  }

  holdsProfiles(scope: ProfileScope | undefined): Promise<boolean> {
    return this.#during(() => this.#reader.holdsProfiles(scope));
  }

  delete(deletion: ProfileDeletion): Promise<ProfileDeletionOutcome> {
    return this.#during(async () => {
      const now = this.#options.clock();
      const deleted: string[] = [];
      const earlier: number[] = [];
      const notFound: number[] = [];
      let charge = 0;
      try {
        for (const { first, part } of deletionParts(deletion)) {
          const request = { kind: 'delete', deletion: part, earlier, now } as const;
          const answer = await this.#writer.ask(ownerOf(deletion), request);
          if (answer.kind !== 'deleted') throw new Error(`a deletion was answered with ${answer.kind}`);
          deleted.push(...answer.outcome.deleted);
          earlier.push(...answer.ids);
          notFound.push(...answer.outcome.notFound.map((at) => first + at));
          charge += answer.charge ?? 0;
        }
      } catch (error) {
        // A repeated call could not tell which profiles this one has deleted.
        throw error instanceof TributaryError && error.retryable && deleted.length > 0
          ? new PartialDeletion(error.message, { deleted, notFound }, { cause: error })
          : error;
      } finally {
        if (deleted.length > 0) this.#publisher.wake();
      }
      return { deleted, notFound, ...(charge > 0 ? { charge } : {}) };
    });
  }

  unlink(unlink: ProfileUnlink): Promise<ProfileUnlinkOutcome> {
    return this.#during(async () => {
      const request = { kind: 'unlink', unlink, now: this.#options.clock() } as const;
      const answer = await this.#writer.ask(ownerOf(unlink), request);
      if (answer.kind === 'not_unlinked') return { ...answer, kind: 'refused' };
      if (answer.kind !== 'unlinked') throw new Error(`an unlink was answered with ${answer.kind}`);
      this.#publisher.wake();
      return { ...answer, profile: await this.#profileOf(answer.profile) };
    });
  }

  split(split: ProfileSplit): Promise<ProfileSplitOutcome> {
    return this.#during(async () => {
      const request = { kind: 'split', split, now: this.#options.clock() } as const;
      const answer = await this.#writer.ask(ownerOf(split), request);
      if (answer.kind === 'not_split')
        return { kind: 'refused', reason: answer.reason, ...chargedBy(answer) };
      if (answer.kind !== 'split') throw new Error(`a split was answered with ${answer.kind}`);
      this.#publisher.wake();
      const { profile, survivor, kept, lost } = answer;
      return {
        kind: 'split',
        profile: await this.#profileOf(profile),
        survivor: await this.#profileOf(survivor),
        kept,
        lost,
        ...chargedBy(answer),
      };
    });
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    clearInterval(this.#forgetTimer);
    await Promise.allSettled(this.#running);
    await this.#publisher.close();
    // Readers close before the writer, because an open reader would keep it from truncating the write-ahead log.
    this.#closeReads();
    await this.#writer.close();
  }

  /** In small portions, as writes wait meanwhile. */
  async #forget(): Promise<void> {
    const { clock, retentionMs, logger } = this.#options;
    try {
      for (let count = 1; count > 0 && this.#closed === undefined; ) {
        const before = forgetDeletionsBefore(clock(), retentionMs);
        const answer = await this.#writer.ask(STORE, { kind: 'forget', before });
        count = answer.kind === 'done' ? answer.count : 0;
      }
    } catch (error) {
      logger.warn(
        { error: messageOf(error) },
        'removing the traces of deleted profiles failed; it is tried again later',
      );
    }
  }

  /** The answers of a group arrive together: to read and answer 16 large profiles at once blocked the thread for 160 ms. */
  async #profileOf(text: string): Promise<Profile> {
    if (text.length > LARGE_CHARACTERS) {
      this.#lastLarge = this.#lastLarge.then(() => nextTurn());
      await this.#lastLarge;
    }
    return parseExact(text) as Profile;
  }

  async #during<T>(call: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) throw new Unavailable('the profiles are closed');
    const done = call();
    this.#running.add(done);
    try {
      return await done;
    } finally {
      this.#running.delete(done);
    }
  }
}

/** The owner of a request to the writer: its organization. */
function ownerOf({ org }: { readonly org: number }): string {
  return String(org);
}

function chargedBy({ charge }: Charged): Charged {
  return charge === undefined ? {} : { charge };
}

function openReads(file: string, busyTimeoutMs: number, lease: PublisherLease): DatabaseSync {
  try {
    const reads = openDatabase(file, { readOnly: true, busyTimeoutMs });
    reads.exec(`PRAGMA cache_size = -${READ_CACHE_KIB}`);
    return reads;
  } catch (error) {
    lease.close();
    throw error;
  }
}

/** Whether the folder of a store has profiles, live or deleted. Does not open it as a store. */
export function folderHoldsProfiles(folder: string): boolean {
  const file = join(folder, 'profiles.db');
  if (!existsSync(file)) return false;
  const database = openDatabase(file, { readOnly: true, busyTimeoutMs: 5_000 });
  try {
    const hasTable = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'profiles'").get();
    return hasTable !== undefined && database.prepare('SELECT 1 FROM profiles LIMIT 1').get() !== undefined;
  } finally {
    database.close();
  }
}

function prepareFile(file: string, busyTimeoutMs: number): void {
  const database = openDatabase(file, { busyTimeoutMs });
  try {
    prepareSchema(database, file);
  } finally {
    database.close();
  }
}
