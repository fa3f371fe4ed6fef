import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { messageOf, parseExact } from '@tributary/core';
import { openDatabase } from '../../sqlite/database.ts';
import { WalCheckpointer } from '../../sqlite/wal-checkpointer.ts';
import { carryOut } from './carry-out.ts';
import { Erasure } from './erasure.ts';
import type { StoreAnswer, StoreRequest, ThreadReply, ThreadRequest, WriterOptions } from './protocol.ts';
import { StoredProfiles } from './stored-profiles.ts';
import { inWriteTransaction } from './write-transaction.ts';

/** The thread in which writes of profiles wait for the disk and for each other: one transaction at a time. */
if (!parentPort) throw new Error('writer-thread.ts runs as a worker thread');
const port: MessagePort = parentPort;

/** Index pages of millions of profiles; keys are random, so what is not here is read again and again. */
const CACHE_KIB = 64 * 1024;
/** Pages of the log of writes that are carried over into the file at once: 64 MB. */
const MANY_PAGES = 16_000;
/** And those that writes may wait for. */
const FEW_PAGES = 500;
/** How long one transaction carries out requests, ms: others wait for the file, and one large profile takes 25 a write. */
const HELD_MS = 100;

const { file, busyTimeoutMs }: WriterOptions = workerData;
const database = openDatabase(file, { busyTimeoutMs });
database.exec(`PRAGMA busy_timeout = 0; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA secure_delete = ON;`);
const stored = new StoredProfiles(database);
const carrier = new WalCheckpointer(database, {
  file,
  busyTimeoutMs,
  checkpointPages: MANY_PAGES,
  inlinePages: FEW_PAGES,
});
const erasure = new Erasure(database);
// Who died may have left something behind.
erasure.owe();

type Group = Extract<ThreadRequest, { kind: 'group' }>;

port.on('message', async (first: ThreadRequest) => {
  const requests = [first, ...queued()];
  const groups = requests.filter((request) => request.kind === 'group');
  if (groups.length > 0) commit(groups);
  if (groups.length === requests.length) return;
  // Who is at the log keeps it from being emptied.
  await carrier.close();
  erasure.atLast();
  database.close();
  port.close();
});

/** What else has come: groups that waited together share transactions. */
function* queued(): Generator<ThreadRequest> {
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    yield next.message;
  }
}

/** Of a group that fails, what earlier transactions did stays. */
function commit(groups: readonly Group[]): void {
  const requests = groups.map((group) => parseExact(group.requests) as readonly StoreRequest[]);
  const all = requests.flat();
  const answers: StoreAnswer[] = [];
  let failure: unknown;
  try {
    while (answers.length < all.length) answers.push(...commitSome(all.slice(answers.length)));
  } catch (error) {
    stored.forgetKnown();
    failure = error;
  }
  if (answers.some(tookSomething)) erasure.owe();
  let end = 0;
  for (const [at, { id }] of groups.entries()) {
    const begin = end;
    end += requests[at]?.length ?? 0;
    if (end <= answers.length) reply({ kind: 'committed', id, answers: answers.slice(begin, end) });
    else reply({ kind: 'failed', id, error: messageOf(failure) });
  }
  carrier.committed();
}

/** The first of the requests, in one transaction; one of them at least. */
function commitSome(requests: readonly StoreRequest[]): readonly StoreAnswer[] {
  return inWriteTransaction(database, busyTimeoutMs, () => {
    stored.begin();
    const answers: StoreAnswer[] = [];
    const until = performance.now() + HELD_MS;
    for (const request of requests) {
      answers.push(carryOut(stored, request));
      if (performance.now() > until) break;
    }
    stored.flush();
    return answers;
  });
}

function tookSomething(answer: StoreAnswer): boolean {
  return answer.kind === 'deleted' && answer.outcome.deleted.length > 0;
}

function reply(message: ThreadReply): void {
  port.postMessage(message);
}
