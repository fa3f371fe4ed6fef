import { Worker } from 'node:worker_threads';
import { iso, TOPIC } from '@tributary/core';
import {
  crashEntries,
  InFlightMemory,
  type SlotName,
} from '@tributary/infra/adapters/event-log/stage-runner';
import { tell } from '../../../helpers/child.ts';
import type { EventLogHarness } from '../suite/harness.ts';
import type { CrashingThreadData } from './crashing-thread.ts';

/** A process with stages in a thread: it survives the thread, records the entries in flight, and exits. */
const [module, mediumText] = process.argv.slice(2);
if (!module || !mediumText) throw new Error('crashing-child.ts <harness module> <medium>');
const { harness }: { harness: EventLogHarness } = await import(module);
const medium = JSON.parse(mediumText);
const inFlight = new InFlightMemory();
const workerData: CrashingThreadData = { module, medium, memory: inFlight.memory };
const thread = new Worker(new URL('./crashing-thread.ts', import.meta.url), {
  workerData,
  // A small young generation: otherwise V8 may end the whole process, which looks like a kill here.
  resourceLimits: { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 },
});
let isAsked = false;
thread.on('message', (message: { readonly slot: number; readonly name: SlotName } | { ready: true }) => {
  if ('slot' in message) inFlight.named(message.slot, message.name);
  else tell(message);
});
thread.on('error', () => {}); // followed by `exit`
thread.on('exit', async () => {
  if (isAsked) process.exit(0);
  const log = await harness.open(medium);
  await log.append(TOPIC.crashes, crashEntries(inFlight.ranges(), 'test', iso(Date.now())));
  await log.close();
  process.exit(1);
});
process.once('SIGTERM', () => {
  isAsked = true;
  thread.postMessage('leave');
});
