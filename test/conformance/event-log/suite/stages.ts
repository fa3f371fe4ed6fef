import type {
  Batch,
  BatchStage,
  DeadLetterRecord,
  EventLog,
  FlowStage,
  LogEntry,
  OutputRecord,
  StageRun,
} from '@tributary/core';
import { asyncHandler, TOPIC } from '@tributary/core';
import { OTHER_TARGET, SOURCE, TARGET } from './harness.ts';
import { eventually, valuesOf } from './log-contents.ts';

/** Copies an entry's value to the target under its key. */
export function copyOf(entry: LogEntry, topic = TARGET): OutputRecord {
  return { topic, key: entry.key, value: entry.value, headers: entry.headers };
}

export function batchStage(process: BatchStage['process'], rest: Partial<BatchStage> = {}): BatchStage {
  return {
    kind: 'batch',
    name: 'stage',
    reads: [{ topic: SOURCE }],
    writes: [TARGET, OTHER_TARGET],
    process,
    ...rest,
  };
}

export function flowStage(
  handle: Parameters<typeof asyncHandler>[0],
  rest: Partial<FlowStage> = {},
): FlowStage {
  const fixed = {
    kind: 'flow',
    name: 'stage',
    windowBytes: 100_000,
    writes: [TARGET, OTHER_TARGET],
  } as const;
  return { ...fixed, reads: [{ topic: SOURCE }], handle: asyncHandler(handle), ...rest };
}

/** A batch stage that copies the entries for which `each` does not throw. */
export function eachOf(each: (entry: LogEntry) => void): BatchStage['process'] {
  return async (batch: Batch) =>
    batch.entries.map((entry) => {
      each(entry);
      return copyOf(entry);
    });
}

/** A batch stage that copies all entries. */
export function copyStage(rest: Partial<BatchStage> = {}): BatchStage {
  return batchStage(
    eachOf(() => {}),
    rest,
  );
}

export async function caughtUp(run: StageRun, withinMs?: number): Promise<void> {
  const isThere = async () => (await run.lag()).every(({ lag }) => lag === 0);
  await eventually(isThere, 'the stage is behind', withinMs);
}

/** Runs the stage until it has caught up, then stops it. */
export async function runThrough(log: EventLog, stage: BatchStage | FlowStage): Promise<void> {
  const run = await log.run(stage);
  await caughtUp(run);
  await run.stop();
}

export async function poisoned(log: EventLog): Promise<DeadLetterRecord[]> {
  return (await valuesOf(log, TOPIC.poison)) as DeadLetterRecord[];
}
