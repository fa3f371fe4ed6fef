import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '@tributary/core';
import { InHandTable } from '../../adapters/event-log/suspects/in-hand-table.ts';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { startDeadline } from '../process/await-engines.ts';
import { openStages, type RunningStages } from '../wiring/stages.ts';
import type { FromStages, StagesThreadData, ToStages } from './messages.ts';

/** How often the process is told whether the stages are ready, ms. */
const READINESS_EVERY_MS = 500;

/** A report of metrics waits this long for the log to answer the lag, ms; then the last known lag is in it. */
const LAG_WAIT_MS = 300;

// A report of a full heap names no keys: each thread says so for itself.
process.report.excludeEnv = true;

// The entry of the stages' thread: opens ports of its own, runs the pipeline, answers the process.
const start = workerData as StagesThreadData;
const logger = createLogger(start.config.logLevel, { part: 'stages' });
const metrics = createMetrics({ processMetrics: false });
const send = (message: FromStages) => parentPort?.postMessage(message);
const inHand = new InHandTable(start.inHand, (slot, name) => send({ type: 'in hand', slot, name }));
let stages: RunningStages | undefined;
let lag: Promise<void> | undefined;

/** A log that does not answer has one request for the lag pending, never more. */
async function refreshLag(): Promise<void> {
  lag ??= stages?.reportLag().finally(() => {
    lag = undefined;
  });
  const over = new AbortController();
  await Promise.race([lag, sleep(LAG_WAIT_MS, undefined, { signal: over.signal }).catch(() => {})]);
  over.abort();
}

parentPort?.on('message', async (message: ToStages) => {
  if (message.type === 'metrics') {
    await refreshLag();
    send({ type: 'metrics', snapshot: await metrics.snapshot() });
    return;
  }
  // What is still being opened has taken nothing yet.
  await stages?.stop();
  send({ type: 'stopped' });
});

try {
  const deadline = startDeadline(start.config.startTimeout, logger);
  stages = await openStages(start, { logger, metrics, inHand }, deadline);
  const { readiness } = stages;
  const tell = () => send({ type: 'readiness', readiness: readiness() });
  tell();
  setInterval(tell, READINESS_EVERY_MS).unref();
  send({ type: 'running' });
  await stages.ended;
} catch (error) {
  logger.error(
    { error: messageOf(error), stack: error instanceof Error ? error.stack : '' },
    'the stages failed',
  );
  send({ type: 'failed', message: messageOf(error) });
}
