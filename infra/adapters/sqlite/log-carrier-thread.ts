import { parentPort, workerData } from 'node:worker_threads';
import { openDatabase } from './database.ts';
import type { CarrierOptions, CarrierReply, CarrierRequest } from './log-carrier.ts';
import { WriteLog } from './write-log.ts';

/** Carries the log of writes over into the file when it is asked to, while others write. */
if (!parentPort) throw new Error('log-carrier-thread.ts runs as a worker thread');
const port = parentPort;

/** It reads no pages but those of the log, which SQLite does not keep. */
const CACHE_KIB = 64;

const { file, busyTimeoutMs, fewPages }: CarrierOptions = workerData;
// The writer has the file open. If it was removed since, no empty one may take its place.
const database = openDatabase(file, { busyTimeoutMs, create: false });
database.exec(`PRAGMA busy_timeout = 0; PRAGMA cache_size = -${CACHE_KIB};`);
const log = new WriteLog(database);

port.on('message', (request: CarrierRequest) => {
  if (request === 'carry over') {
    carryOver();
    port.postMessage('carried over' satisfies CarrierReply);
  } else {
    database.close();
    port.close();
  }
});

/** Meanwhile the log grows, so again, until there was little. */
function carryOver(): void {
  for (let before = 0; ; ) {
    const carried = log.carryOver();
    if (carried === undefined || carried - before < fewPages) return;
    before = carried;
  }
}
