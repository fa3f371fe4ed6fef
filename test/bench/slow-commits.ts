/**
 * Preloaded into a gateway of the bench: each commit of its event log takes `ADDED_COMMIT_MS` longer, as on a
 * slower disk. Preloads run in every thread; the threads that write the log are recognized by their settings.
 */
import { DatabaseSync } from 'node:sqlite';
import { workerData } from 'node:worker_threads';
import { afterCall } from '../helpers/after-call.ts';

const VARIABLE = 'ADDED_COMMIT_MS';

/** The environment of a process with commits slower by this much. */
export function slowCommits(addedMs: number): Readonly<Record<string, string>> {
  if (addedMs === 0) return {};
  return { NODE_OPTIONS: `--import=${import.meta.url}`, [VARIABLE]: String(addedMs) };
}

const addedMs = Number(process.env[VARIABLE] ?? 0);
if (addedMs > 0 && workerData?.segmentBytes !== undefined) {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  afterCall(DatabaseSync.prototype, 'exec', (_, [sql]) => {
    if (sql === 'COMMIT') Atomics.wait(pause, 0, 0, addedMs);
  });
}
