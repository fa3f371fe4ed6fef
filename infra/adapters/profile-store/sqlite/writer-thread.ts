import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { messageOf } from '@tributary/core';
import { openDatabase } from '../../sqlite/database.ts';
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
/**
 * Pages of the write-ahead log that a commit carries over into the file at once, while writes wait: 64 MB. Rarely much is
 * better than often little, as a page that was written several times is carried over once.
 */
const CHECKPOINT_PAGES = 16_000;

const { file, busyTimeoutMs }: WriterOptions = workerData;
const database = openDatabase(file, { busyTimeoutMs });
database.exec(
  `PRAGMA busy_timeout = 0; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}; PRAGMA secure_delete = ON;`,
);
const stored = new StoredProfiles(database);
const erasure = new Erasure(database);
// Who died may have left something behind.
erasure.owe();

type Group = Extract<ThreadRequest, { kind: 'group' }>;

port.on('message', (first: ThreadRequest) => {
  const requests = [first, ...queued()];
  const groups = requests.filter((request) => request.kind === 'group');
  if (groups.length > 0) commit(groups);
  if (groups.length === requests.length) return;
  erasure.atLast();
  database.close();
  port.close();
});

/** What else has come: groups that waited together share one transaction. */
function* queued(): Generator<ThreadRequest> {
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    yield next.message;
  }
}

function commit(groups: readonly Group[]): void {
  const requests = groups.map((group) => JSON.parse(group.requests) as readonly StoreRequest[]);
  try {
    const answers = inWriteTransaction(database, busyTimeoutMs, () => {
      stored.begin();
      const all = requests.map((group) => group.map((request) => carryOut(stored, request)));
      stored.flush();
      return all;
    });
    if (answers.flat().some(tookSomething)) erasure.owe();
    for (const [at, { id }] of groups.entries()) reply({ kind: 'committed', id, answers: answers[at] ?? [] });
  } catch (error) {
    stored.forgetKnown();
    for (const { id } of groups) reply({ kind: 'failed', id, error: messageOf(error) });
  }
}

function tookSomething(answer: StoreAnswer): boolean {
  return answer.kind === 'deleted' && answer.outcome.deleted.length > 0;
}

function reply(message: ThreadReply): void {
  port.postMessage(message);
}
