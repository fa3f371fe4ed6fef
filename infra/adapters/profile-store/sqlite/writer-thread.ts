import { dirname, join } from 'node:path';
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
/** Target length of one transaction, ms: later requests wait for its end, and other processes for the file. */
const TRANSACTION_MS = 30;
/** Time that one owner may use of it while others wait, ms. A write of a profile of 256 KiB takes 5 ms. */
const TURN_MS = 5;
/** How often the thread looks for further groups within a transaction, ms. */
const POLL_MS = 1;

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
/**
 * Held while a thread waits for the write lock of the profiles: the gateway and the stages write in threads of their own.
 * A busy writer finds it taken after each transaction, and waits until the other one has had its transaction.
 */
const turnstile = openDatabase(join(dirname(file), 'writing.db'), { busyTimeoutMs });
turnstile.exec('PRAGMA busy_timeout = 0');
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

/** A group of requests, and the answers to those that are durable. */
interface Job {
  readonly id: number;
  readonly requests: readonly StoreRequest[];
  readonly answers: StoreAnswer[];
  /** Requests that were carried out, durable or not. */
  carriedOut: number;
}

/** The jobs of each owner in their order. The owner of the next turn is first. */
const waiting = new Map<string, Job[]>();
let isWorking = false;
let isClosing = false;

port.on('message', (message: ThreadRequest) => {
  accept(message);
  if (!isWorking) work();
});

/** One transaction after the other until nothing waits. Timers and messages get their turn in between. */
function work(): void {
  acceptQueued();
  isWorking = waiting.size > 0;
  if (!isWorking) {
    if (isClosing) void close();
    return;
  }
  commitNext();
  checkpointer.committed();
  setImmediate(work);
}

async function close(): Promise<void> {
  isClosing = false;
  // A running checkpointer would keep the log from being truncated.
  await checkpointer.close();
  erasure.eraseNow();
  turnstile.close();
  database.close();
  port.close();
}

function accept(message: ThreadRequest): void {
  if (message.kind === 'close') {
    isClosing = true;
    return;
  }
  const { id, owner } = message;
  const requests = parseExact(message.requests) as readonly StoreRequest[];
  const job: Job = { id, requests, answers: [], carriedOut: 0 };
  const jobs = waiting.get(owner);
  if (jobs === undefined) waiting.set(owner, [job]);
  else jobs.push(job);
}

/** Further messages in the queue: groups that waited together share transactions. */
function acceptQueued(): void {
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port))
    accept(next.message as ThreadRequest);
}

/**
 * Carries out requests, one at least, in one transaction, the owners in turns. If it fails, all waiting groups do, as each
 * would wait for the engine again; transactions before stay committed.
 */
function commitNext(): void {
  const answered: (readonly [Job, StoreAnswer])[] = [];
  try {
    inWriteTransaction(database, busyTimeoutMs, () => {
      stored.begin();
      const began = performance.now();
      let polled = began;
      for (let now = began; now - began < TRANSACTION_MS && waiting.size > 0; ) {
        const [turn] = waiting;
        if (turn === undefined) break;
        const [owner, jobs] = turn;
        const turnBegan = now;
        for (let job = jobs[0]; job !== undefined; job = jobs[0]) {
          const request = job.requests[job.carriedOut];
          if (request !== undefined) {
            answered.push([job, carryOut(stored, request)]);
            job.carriedOut += 1;
          }
          if (job.carriedOut >= job.requests.length) jobs.shift();
          now = performance.now();
          if (now - polled >= POLL_MS) {
            acceptQueued();
            polled = now;
          }
          if (now - turnBegan >= (waiting.size > 1 ? TURN_MS : TRANSACTION_MS)) break;
        }
        waiting.delete(owner);
        if (jobs.length > 0) waiting.set(owner, jobs);
      }
      stored.flush();
    });
  } catch (error) {
    failAll(answered, error);
    return;
  }
  for (const [job, answer] of answered) {
    job.answers.push(answer);
    if (job.answers.length === job.requests.length)
      reply({ kind: 'committed', id: job.id, answers: job.answers });
  }
  if (answered.some(([, answer]) => deletedSomething(answer))) erasure.schedule();
}

function failAll(answered: readonly (readonly [Job, StoreAnswer])[], error: unknown): void {
  stored.dropCache();
  const jobs = new Set([...answered.map(([job]) => job), ...[...waiting.values()].flat()]);
  waiting.clear();
  for (const { id } of jobs) reply({ kind: 'failed', id, error: messageOf(error) });
}

function deletedSomething(answer: StoreAnswer): boolean {
  return answer.kind === 'deleted' && answer.outcome.deleted.length > 0;
}

function reply(message: ThreadReply): void {
  port.postMessage(message);
}

const BACKOFF = { firstMs: 0.2, capMs: 1 };

/**
 * Runs `work` in one write transaction. Blocks the thread while another thread or process writes; `Unavailable` after
 * `busyTimeoutMs`. It polls every ms: SQLite's own wait grows to 100 ms.
 */
function inWriteTransaction<T>(database: DatabaseSync, busyTimeoutMs: number, work: () => T): T {
  const deadline = performance.now() + busyTimeoutMs;
  begin(turnstile, deadline);
  try {
    begin(database, deadline);
  } finally {
    turnstile.exec('ROLLBACK');
  }
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw translateSqliteError(error);
  }
}

function begin(database: DatabaseSync, deadline: number): void {
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
