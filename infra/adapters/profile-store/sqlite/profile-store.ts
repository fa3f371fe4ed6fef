import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type Clock,
  checkFoundSize,
  deleteInParts,
  EventLoopYielder,
  forgetDeletionsBefore,
  InvalidInput,
  identitiesToLookUp,
  isTooOld,
  type Logger,
  type Metrics,
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
  parseExact,
  Unavailable,
  withoutMerged,
} from '@tributary/core';
import { GroupCommit } from '../../group-commit/group-commit.ts';
import { openDatabase, prepareSchema, reading, translateSqliteError } from '../../sqlite/database.ts';
import { StoreThread } from '../../sqlite/store-thread.ts';
import { Outbox, Publisher, PublisherLease } from './outbox.ts';
import { identityDigest, SCHEMA, ucidBytes } from './schema.ts';

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
      this.#publisher.wake();
      return { ...answer, profile: await this.#profileOf(answer.profile) };
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
      return deleteInParts(deletion, async (part, earlier) => {
        const request = { kind: 'delete', deletion: part, earlier, now } as const;
        const { outcome } = await this.#writer.ask(ownerOf(deletion), request);
        if (outcome.deleted.length > 0) this.#publisher.wake();
        return outcome;
      });
    });
  }

  unlink(unlink: ProfileUnlink): Promise<ProfileUnlinkOutcome> {
    return this.#during(async () => {
      const request = { kind: 'unlink', unlink, now: this.#options.clock() } as const;
      const answer = await this.#writer.ask(ownerOf(unlink), request);
      if (answer.kind === 'refused') return answer;
      this.#publisher.wake();
      return { ...answer, profile: await this.#profileOf(answer.profile) };
    });
  }

  split(split: ProfileSplit): Promise<ProfileSplitOutcome> {
    return this.#during(async () => {
      const request = { kind: 'split', split, now: this.#options.clock() } as const;
      const answer = await this.#writer.ask(ownerOf(split), request);
      if (answer.kind === 'refused') return answer;
      this.#publisher.wake();
      const profile = await this.#profileOf(answer.profile);
      return { ...answer, profile, survivor: await this.#profileOf(answer.survivor) };
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
        ({ count } = await this.#writer.ask(STORE, { kind: 'forget', before }));
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
    prepareSchema(database, file, SCHEMA);
  } finally {
    database.close();
  }
}

/** How long a search occupies the thread before it yields, ms. */
const SLICE_MS = 2;

/** Profiles whose scope is checked at a time: a few ms. */
const PAGE = 100;

/** Reads in the calling thread: it sees all commits, also of other processes, and waits for no writer. */
class ProfileReader {
  readonly #claims: Lookup;
  readonly #ucids: Lookup;
  readonly #page: StatementSync;

  constructor(database: DatabaseSync) {
    this.#claims = new Lookup(database, 'claims', 'claim');
    this.#ucids = new Lookup(database, 'ucids', 'ucid');
    this.#page = database.prepare(
      `SELECT max(profile) AS last, max(json_extract(body, '$.org') = ? AND json_extract(body, '$.region') = ?) AS found
       FROM (SELECT profile, body FROM profiles WHERE profile > ? AND deleted_at IS NULL ORDER BY profile LIMIT ${PAGE})`,
    );
  }

  async search(search: ProfileSearch): Promise<readonly Profile[]> {
    const read = new Map<number, Profile>();
    const { org, regions } = search;
    const isWanted = (profile: Profile) => profile.org === org && regions.includes(profile.region);
    const thread = new EventLoopYielder(() => performance.now(), SLICE_MS);
    let characters = 0;
    for (const [lookup, key] of this.#keysOf(search)) {
      const row = reading(() => lookup.read(key, read));
      if (row !== undefined) {
        const profile = parseExact(row.body) as Profile;
        read.set(row.id, profile);
        if (isWanted(profile)) characters += row.body.length;
        checkFoundSize(characters);
      }
      if (thread.isYieldDue) await thread.yield();
    }
    return withoutMerged([...read.values()].filter(isWanted));
  }

  /** Reads all profiles in the worst case, page by page, because no index covers the scope. */
  async holdsProfiles(scope: ProfileScope | undefined): Promise<boolean> {
    for (let after = 0; ; ) {
      const row = reading(() => this.#page.get(scope?.org ?? 0, scope?.region ?? '', after));
      if (row === undefined || row.last === null) return false;
      if (scope === undefined || Number(row.found) === 1) return true;
      after = Number(row.last);
      await nextTurn();
    }
  }

  *#keysOf({ org, regions, identities, ucids }: ProfileSearch): Generator<readonly [Lookup, Uint8Array]> {
    for (const ucid of ucids) yield [this.#ucids, ucidBytes(ucid)];
    for (const region of regions)
      for (const identity of identities) yield [this.#claims, identityDigest({ org, region }, identity)];
  }
}

/** Finds the live profile that a key leads to. */
class Lookup {
  readonly #id: StatementSync;
  readonly #profile: StatementSync;

  constructor(database: DatabaseSync, table: 'claims' | 'ucids', key: 'claim' | 'ucid') {
    this.#id = database.prepare(`SELECT profile FROM ${table} WHERE ${key} = ?`);
    // One statement sees one snapshot; between two statements the profile could be merged into another.
    this.#profile = database.prepare(
      `SELECT profiles.profile, profiles.body FROM ${table} JOIN profiles USING (profile)
       WHERE ${table}.${key} = ? AND profiles.deleted_at IS NULL`,
    );
  }

  /** Undefined if there is none, or if it is in `known`. */
  read(
    key: Uint8Array,
    known: ReadonlyMap<number, Profile>,
  ): { readonly id: number; readonly body: string } | undefined {
    if (known.size > 0 && known.has(Number(this.#id.get(key)?.profile))) return undefined;
    const row = this.#profile.get(key);
    return row === undefined ? undefined : { id: Number(row.profile), body: String(row.body) };
  }
}

const MAX_UNCONFIRMED_BYTES = 64 * 1024 * 1024;
const MAX_GROUP_BYTES = 4 * 1024 * 1024;
/** One group is carried out while the next is on its way to the thread. */
const MAX_IN_FLIGHT = 2;
/** A group of this size is sent at once. Otherwise callers that are answered together would wait for each other again. */
const EAGER_REQUESTS = 32;

/**
 * Sends write requests to a thread of their own, where concurrent requests share one transaction and one fsync. Each owner
 * has groups of its own, which the thread carries out in turns: what one owner has queued delays no other. The thread
 * starts with the first request, and again if it dies.
 */
class ProfileWriter {
  readonly #thread: StoreThread<RequestGroup, readonly StoreAnswer[]>;
  /** Of requests as JSON. */
  readonly #groups = new Map<string, GroupCommit<string, StoreAnswer>>();

  constructor(options: WriterOptions, logger: Logger) {
    this.#thread = new StoreThread({
      program: new URL('./writer-thread.ts', import.meta.url),
      workerData: options,
      onDied: (error) =>
        logger.error({ file: options.file, error: error.message }, 'the thread that writes profiles failed'),
    });
  }

  /**
   * Resolves when the request is durable. Rejects with `Overloaded` or `InvalidInput` (nothing was written), or
   * `Unavailable` (the outcome is unknown). Requests of one owner are carried out in the order of the calls.
   */
  async ask<Request extends StoreRequest>(
    owner: string,
    request: Request,
  ): Promise<Answers[Request['kind']]> {
    const text = JSON.stringify(request);
    const groups = this.#groupsOf(owner);
    try {
      const answer = await groups.add(text, text.length);
      if (answer.kind === 'failed') throw new InvalidInput(answer.error);
      return answer as Answers[Request['kind']];
    } finally {
      if (groups.isIdle && this.#groups.get(owner) === groups) this.#groups.delete(owner);
    }
  }

  /** Waits for the requests under way, then ends the thread. */
  async close(): Promise<void> {
    while (this.#groups.size > 0)
      for (const [owner, groups] of this.#groups) {
        await groups.drained();
        this.#groups.delete(owner);
      }
    await this.#thread.close();
  }

  #groupsOf(owner: string): GroupCommit<string, StoreAnswer> {
    const known = this.#groups.get(owner);
    if (known !== undefined) return known;
    const groups = new GroupCommit<string, StoreAnswer>({
      maxInFlight: MAX_IN_FLIGHT,
      eagerRequests: EAGER_REQUESTS,
      maxUnconfirmedBytes: MAX_UNCONFIRMED_BYTES,
      maxGroupBytes: MAX_GROUP_BYTES,
      commit: (group) => this.#thread.ask({ owner, requests: `[${group.join(',')}]` }),
    });
    this.#groups.set(owner, groups);
    return groups;
  }
}

/** A request to the writer thread. `now`: the time of the call, epoch ms. */
export type StoreRequest =
  /**
   * `digests`: the digests of the write's `identitiesToLookUp`, hexadecimal. The caller hashes them while the thread
   * writes. `ucid`: for the profile, if the write creates one.
   */
  | {
      readonly kind: 'upsert';
      readonly write: ProfileWrite;
      readonly digests: readonly string[];
      readonly ucid: string;
      readonly now: number;
    }
  /** `earlier`: ucids of profiles that earlier requests of the same call have deleted. */
  | {
      readonly kind: 'delete';
      readonly deletion: ProfileDeletion;
      readonly earlier: readonly string[];
      readonly now: number;
    }
  | { readonly kind: 'unlink'; readonly unlink: ProfileUnlink; readonly now: number }
  | { readonly kind: 'split'; readonly split: ProfileSplit; readonly now: number }
  /** Changes up to this number were published. */
  | { readonly kind: 'published'; readonly upTo: number }
  /** Forgets some of the deletions before this time, epoch ms. */
  | { readonly kind: 'forget'; readonly before: number };

/** An outcome with its profiles as JSON. */
type AsText<Outcome> = Outcome extends unknown
  ? { readonly [Key in keyof Outcome]: Outcome[Key] extends Profile ? string : Outcome[Key] }
  : never;

/** The answers of the thread, by the kind of the request. */
export interface Answers {
  readonly upsert: AsText<ProfileWriteOutcome>;
  readonly delete: { readonly kind: 'deleted'; readonly outcome: ProfileDeletionOutcome };
  readonly unlink: AsText<ProfileUnlinkOutcome>;
  readonly split: AsText<ProfileSplitOutcome>;
  /** How many changes were removed from the outbox, or deletions were forgotten. */
  readonly published: { readonly kind: 'done'; readonly count: number };
  readonly forget: { readonly kind: 'done'; readonly count: number };
}

/** The request failed alone; nothing of it was written. */
export interface FailedRequest {
  readonly kind: 'failed';
  readonly error: string;
}

export type StoreAnswer = Answers[keyof Answers] | FailedRequest;

export interface WriterOptions {
  readonly file: string;
  readonly busyTimeoutMs: number;
}

/** `requests`: JSON of a list of `StoreRequest`s, as one text crosses threads faster than many objects. */
export interface RequestGroup {
  readonly owner: string;
  readonly requests: string;
}
