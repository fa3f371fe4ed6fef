import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  declareTopics,
  type EventLog,
  NO_LOGGER,
  NO_METRICS,
  type Stage,
  type StageRun,
} from '@tributary/core';
import { openSqliteEventLog } from '@tributary/infra';
import { onTestFinished } from 'vitest';

const DAY_MS = 24 * 3_600_000;
const TOPICS = declareTopics({
  partitions: 1,
  retentionMs: DAY_MS,
  retrySteps: ['10s', '1m', '10m', '1h', '6h'],
  dedicated: [],
});

/** A log of one partition a topic, in a folder that the test removes. Its stages wait that long at a stop for what is in flight. */
export async function openLog(stopGraceMs = 500): Promise<EventLog> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-stages-log-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const log = await openSqliteEventLog({
    folder,
    topics: TOPICS,
    logger: NO_LOGGER,
    metrics: NO_METRICS,
    stopGraceMs,
  });
  onTestFinished(() => log.close());
  await log.createTopics();
  return log;
}

/** Runs the stages of these names on the log, by name. */
export async function runOn(
  log: EventLog,
  stages: readonly Stage[],
  names: readonly string[],
): Promise<ReadonlyMap<string, StageRun>> {
  const runs = new Map<string, StageRun>();
  for (const stage of stages) {
    if (!names.includes(stage.name)) continue;
    const run = await log.run(stage);
    onTestFinished(() => run.stop());
    runs.set(stage.name, run);
  }
  return runs;
}
