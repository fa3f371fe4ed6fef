import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '@tributary/core';
import { createLogger } from '../observability/logger.ts';
import { createMetrics } from '../observability/metrics.ts';
import { openStages } from '../wiring/stages.ts';
import type { FromStages, StagesStart, ToStages } from './messages.ts';

// The entry of the stages' thread: opens ports of its own, runs the pipeline, answers the process.
const { config } = workerData as StagesStart;
const logger = createLogger(config.logLevel, { part: 'stages' });
const metrics = createMetrics({ processFigures: false });
const stages = await openStages(config, { logger, metrics });
const send = (message: FromStages) => parentPort?.postMessage(message);

stages.ended.catch((error: unknown) => {
  logger.error({ error: messageOf(error) }, 'a stage ended; the process leaves');
  throw error;
});

parentPort?.on('message', async (message: ToStages) => {
  if (message.type === 'metrics') {
    await stages.reportLag();
    send({ type: 'metrics', request: message.request, snapshot: await metrics.snapshot() });
    return;
  }
  await stages.stop();
  send({ type: 'stopped' });
});
send({ type: 'running' });
