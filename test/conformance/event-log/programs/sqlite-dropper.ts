/**
 * A process that drops records of an embedded log, for its suite: `sqlite-dropper.ts <folder> <offset> <step>
 * <time>`. It kills itself right after this occurrence of the step.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { declareTopics, NO_LOGGER, NO_METRICS, TOPIC } from '@tributary/core';
import { openSqliteEventLog } from '@tributary/infra/adapters/event-log/sqlite';

export const TOPICS = declareTopics({ partitions: 1, retentionMs: 60_000, retrySteps: [], dedicated: [] });

type Method = (...args: unknown[]) => unknown;

/** Calls `then` after each call of a method of the prototype: the product has no hook between two steps. */
function afterCall<Target extends object>(
  target: Target,
  name: keyof Target,
  then: (self: Target, args: readonly unknown[], result: unknown) => void,
): void {
  const original = target[name] as Method;
  const value = function (this: Target, ...args: unknown[]): unknown {
    const result = original.apply(this, args);
    then(this, args, result);
    return result;
  };
  Object.defineProperty(target, name, { value });
}

/**
 * Calls back after each step of a drop, recognized by its effect on a segment: its rows are gone for readers,
 * its file is rebuilt, its write-ahead log is empty, or its files are removed.
 */
function afterSteps(done: (step: string) => void): void {
  let isDeleting = false;
  afterCall(StatementSync.prototype, 'run', ({ sourceSQL }) => {
    if (sourceSQL.startsWith('DELETE FROM')) isDeleting = true;
  });
  afterCall(StatementSync.prototype, 'get', ({ sourceSQL }, _, row) => {
    const isEmptied = sourceSQL.startsWith('PRAGMA wal_checkpoint') && Object(row).busy === 0;
    if (isEmptied) done('emptied');
  });
  afterCall(DatabaseSync.prototype, 'exec', (_, [sql]) => {
    if (sql === 'VACUUM') done('written anew');
    if (sql !== 'COMMIT' || !isDeleting) return;
    isDeleting = false;
    done('deleted');
  });
  afterCall(fs, 'rmSync', (_, [path]) => {
    if (/\/\d+\.db-shm$/.test(String(path))) done('removed');
  });
  syncBuiltinESMExports();
}

if (process.argv[1] === import.meta.filename) {
  const [folder = '', offset = '', last = '', time = ''] = process.argv.slice(2);
  let times = 0;
  const log = await openSqliteEventLog({
    folder,
    topics: TOPICS,
    logger: NO_LOGGER,
    metrics: NO_METRICS,
  });
  afterSteps((step) => {
    if (step !== last) return;
    times++;
    if (times === Number(time)) process.kill(process.pid, 'SIGKILL');
  });
  await log.dropBelow(TOPIC.catalog, 0, Number(offset));
  await log.close();
}
