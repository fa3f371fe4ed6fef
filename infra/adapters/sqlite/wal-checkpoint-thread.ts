import { parentPort, workerData } from 'node:worker_threads';
import { openDatabase } from './database.ts';
import type { ThreadReply, ThreadRequest } from './store-thread.ts';
import { type CheckpointOptions, WriteAheadLog } from './wal-checkpointer.ts';

/** Checkpoints a write-ahead log on request, while another thread writes to it. */
if (!parentPort) throw new Error('wal-checkpoint-thread.ts runs as a worker thread');
const port = parentPort;

/** A checkpoint reads pages of the log only, which SQLite does not cache. */
const CACHE_KIB = 64;

const { file, inlinePages }: CheckpointOptions = workerData;
// Not created: if the file was removed after the writer opened it, no empty one may take its place.
const database = openDatabase(file, { create: false });
database.exec(`PRAGMA busy_timeout = 0; PRAGMA cache_size = -${CACHE_KIB};`);
const wal = new WriteAheadLog(database);

port.on('message', (message: ThreadRequest<'checkpoint'>) => {
  if (message.kind === 'request') {
    checkpoint();
    port.postMessage({ kind: 'done', id: message.id, result: undefined } satisfies ThreadReply<undefined>);
  } else {
    database.close();
    port.close();
  }
});

/** Repeats the checkpoint until few pages were added meanwhile. */
function checkpoint(): void {
  for (let before = 0; ; ) {
    const checkpointed = wal.checkpoint();
    if (checkpointed === undefined || checkpointed - before < inlinePages) return;
    before = checkpointed;
  }
}
