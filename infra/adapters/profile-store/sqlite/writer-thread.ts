import type { DatabaseSync } from 'node:sqlite';
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { backoffMs, messageOf, parseExact } from '@tributary/core';
import { isBusy, openDatabase, translateSqliteError } from '../../sqlite/database.ts';
import { WalCheckpointer } from '../../sqlite/wal-checkpointer.ts';
import { carryOut } from './carry-out.ts';
import type {
  StoreAnswer,
  StoreRequest,
  ThreadReply,
  ThreadRequest,
  WriterOptions,
} from './profile-writer.ts';
import { StoredProfiles } from './stored-profiles.ts';

/** The thread that writes profiles, one transaction at a time, and waits for the disk. */
if (!parentPort) throw new Error('writer-thread.ts runs as a worker thread');
const port: MessagePort = parentPort;

/** For the index pages of millions of profiles: keys are random, so pages outside of the cache are read again and again. */
const CACHE_KIB = 64 * 1024;
/** WAL pages after which the checkpointer thread runs: 64 MB. */
const MANY_PAGES = 16_000;
/** WAL pages that it leaves to this thread, which writes may wait for. */
const FEW_PAGES = 500;
/** Target length of one transaction, ms: other processes wait for the file. One write of a large profile takes 25 ms. */
const TRANSACTION_MS = 100;

/** Deletions within this time are erased together, ms. */
const ERASE_AFTER_MS = 200;
const RETRY_AFTER_MS = 1_000;
/** A reader that keeps a snapshot of the file open for longer prevents the erasure, until the next deletion. */
const ATTEMPTS = 60;
/** How long the last attempt waits for readers and writers, ms. */
const LAST_WAIT_MS = 250;

/**
 * Erases deleted profiles from the files. `secure_delete` overwrites them in the tables; earlier versions remain in the
 * write-ahead log until it is truncated, which has to wait for its readers.
 */
class Erasure {
  readonly #database: DatabaseSync;
  #attempts = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  /** Erases recent deletions soon, between writes. */
  schedule(): void {
    this.#attempts = ATTEMPTS;
    this.#scheduleIn(ERASE_AFTER_MS);
  }

  /** The last attempt of this process. Blocks for up to 250 ms while the file is in use. */
  eraseNow(): void {
    clearTimeout(this.#timer);
    this.#database.exec(`PRAGMA busy_timeout = ${LAST_WAIT_MS}`);
    this.#erase();
  }

  #scheduleIn(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#attempts -= 1;
      if (!this.#erase() && this.#attempts > 0) this.#scheduleIn(RETRY_AFTER_MS);
    }, ms).unref();
  }

  /** True when the write-ahead log is empty. */
  #erase(): boolean {
    try {
      return this.#database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy === 0;
    } catch (error) {
      if (isBusy(error)) return false;
      throw error;
    }
  }
}

const { file, busyTimeoutMs }: WriterOptions = workerData;
const database = openDatabase(file, { busyTimeoutMs });
database.exec(`PRAGMA busy_timeout = 0; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA secure_delete = ON;`);
const stored = new StoredProfiles(database);
const checkpointer = new WalCheckpointer(database, {
  file,
  busyTimeoutMs,
  checkpointPages: MANY_PAGES,
  inlinePages: FEW_PAGES,
});
const erasure = new Erasure(database);
// A process that died may have left deletions unerased.
erasure.schedule();

type Group = Extract<ThreadRequest, { kind: 'group' }>;

port.on('message', async (first: ThreadRequest) => {
  const requests = [first, ...queued()];
  const groups = requests.filter((request) => request.kind === 'group');
  if (groups.length > 0) commit(groups);
  if (groups.length === requests.length) return;
  // A running checkpointer would keep the log from being truncated.
  await checkpointer.close();
  erasure.eraseNow();
  database.close();
  port.close();
});

/** Further messages in the queue: groups that waited together share transactions. */
function* queued(): Generator<ThreadRequest> {
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    yield next.message;
  }
}

/** If a transaction fails, those before it stay committed. */
function commit(groups: readonly Group[]): void {
  const requests = groups.map((group) => parseExact(group.requests) as readonly StoreRequest[]);
  const all = requests.flat();
  const answers: StoreAnswer[] = [];
  let failure: unknown;
  try {
    while (answers.length < all.length) answers.push(...commitNext(all.slice(answers.length)));
  } catch (error) {
    stored.dropCache();
    failure = error;
  }
  if (answers.some(deletedSomething)) erasure.schedule();
  let end = 0;
  for (const [at, { id }] of groups.entries()) {
    const begin = end;
    end += requests[at]?.length ?? 0;
    if (end <= answers.length) reply({ kind: 'committed', id, answers: answers.slice(begin, end) });
    else reply({ kind: 'failed', id, error: messageOf(failure) });
  }
  checkpointer.committed();
}

/** Carries out the first requests, one at least, in one transaction. */
function commitNext(requests: readonly StoreRequest[]): readonly StoreAnswer[] {
  return inWriteTransaction(database, busyTimeoutMs, () => {
    stored.begin();
    const answers: StoreAnswer[] = [];
    const until = performance.now() + TRANSACTION_MS;
    for (const request of requests) {
      answers.push(carryOut(stored, request));
      if (performance.now() > until) break;
    }
    stored.flush();
    return answers;
  });
}

function deletedSomething(answer: StoreAnswer): boolean {
  return answer.kind === 'deleted' && answer.outcome.deleted.length > 0;
}

function reply(message: ThreadReply): void {
  port.postMessage(message);
}

const BACKOFF = { firstMs: 0.2, capMs: 4 };

/**
 * Runs `work` in one write transaction. Blocks the thread while another process writes; `Unavailable` after
 * `busyTimeoutMs`. It polls every few ms: SQLite's own wait grows to 100 ms and seldom hits the moment between two
 * transactions of a busy writer.
 */
function inWriteTransaction<T>(database: DatabaseSync, busyTimeoutMs: number, work: () => T): T {
  begin(database, busyTimeoutMs);
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw translateSqliteError(error);
  }
}

function begin(database: DatabaseSync, busyTimeoutMs: number): void {
  const deadline = performance.now() + busyTimeoutMs;
  for (let attempt = 0; ; attempt++) {
    try {
      database.exec('BEGIN IMMEDIATE');
      return;
    } catch (error) {
      if (!isBusy(error)) throw translateSqliteError(error);
      if (performance.now() >= deadline) throw translateSqliteError(error, database.location() ?? undefined);
    }
    pause(backoffMs(attempt, BACKOFF) * (0.5 + Math.random()));
  }
}

const neverNotified = new Int32Array(new SharedArrayBuffer(4));

function pause(ms: number): void {
  Atomics.wait(neverNotified, 0, 0, ms);
}
