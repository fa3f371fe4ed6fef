import { parentPort, workerData } from 'node:worker_threads';
import { asyncHandler, type BatchStage, type FlowStage, type LogEntry } from '@tributary/core';
import { InFlightTable, type SlotName } from '@tributary/infra/adapters/event-log/stage-runner';
import { type EventLogHarness, type Medium, RECEIVED, SOURCE, TARGET } from '../suite/harness.ts';

/** The thread's start data. */
export interface CrashingThreadData {
  readonly module: string;
  readonly medium: Medium;
  readonly memory: SharedArrayBuffer;
}

/** An entry of the test; a deadly one ends the thread that runs the named stage. */
export interface Deadly {
  readonly n: number;
  readonly deadly?: { readonly to: 'batch' | 'flow'; readonly by: 'exit' | 'heap' | 'uncaught' };
}

// Two stages in a thread that an entry may end, like the stages of a process.
const { module, medium, memory } = workerData as CrashingThreadData;
const { harness }: { harness: EventLogHarness } = await import(module);
const named = (slot: number, name: SlotName) => parentPort?.postMessage({ slot, name });
const log = await harness.open(medium, { inFlight: new InFlightTable(memory, named) });
parentPort?.on('message', () => void log.close().then(() => process.exit(0)));

const batch: BatchStage = {
  kind: 'batch',
  name: 'batch-copy',
  reads: [{ topic: RECEIVED }],
  writes: [SOURCE],
  maxEntries: 50,
  async process({ entries }) {
    for (const entry of entries) await meet(entry, 'batch');
    return entries.map(({ key, value }) => ({ topic: SOURCE, key: key || 'k', value, headers: {} }));
  },
};
const flow: FlowStage = {
  kind: 'flow',
  name: 'flow-copy',
  reads: [{ topic: SOURCE }],
  writes: [TARGET],
  windowBytes: 32 * 1024,
  handle: asyncHandler(async (entry) => {
    await meet(entry, 'flow');
    return [{ topic: TARGET, key: entry.key, value: entry.value, headers: {} }];
  }),
};
for (const stage of [batch, flow]) await log.run(stage);
parentPort?.postMessage({ ready: true });

async function meet({ value }: LogEntry, stage: 'batch' | 'flow'): Promise<void> {
  const { deadly } = JSON.parse(value) as Deadly;
  if (deadly?.to !== stage) return;
  // Delayed, as with runaway code: other entries are in flight by then.
  await new Promise((resolve) => setTimeout(resolve, 20));
  if (deadly.by === 'exit') process.exit(7);
  if (deadly.by === 'uncaught')
    setImmediate(() => {
      throw new Error('nobody catches this');
    });
  const held: unknown[] = [];
  while (deadly.by === 'heap') held.push(new Array(10_000).fill({}));
  await new Promise(() => {});
}
