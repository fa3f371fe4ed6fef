import { Worker } from 'node:worker_threads';
import { messageOf } from '@tributary/core';
import type { MetricsSnapshot } from '../observability/metrics.ts';
import type { Readiness } from '../observability/readiness.ts';
import type { FromStages, StagesStart, ToStages } from './messages.ts';

/** The stages could not start, or one of them died: the process must leave, its supervisor starts it again. */
export class StagesFailed extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StagesFailed';
  }
}

/**
 * The stages at work in a thread of this process, so that what they do never delays an answer of the gateway, nor one
 * about the process's health.
 */
export interface StagesThread {
  /** Resolves once the stages run; rejects with `StagesFailed`. */
  readonly running: Promise<void>;
  /** Rejects with `StagesFailed` when they failed, before they ran or later. */
  readonly failed: Promise<never>;
  /** As the thread said last. */
  readiness(): Readiness;
  /** Pending for as long as the thread is busy; further calls join the one that is under way. */
  snapshot(): Promise<MetricsSnapshot>;
  /** Finishes what was taken, commits, leaves. */
  close(): Promise<void>;
}

/** Before the stages have said anything. */
export const STARTING: Readiness = { ready: false, checks: { catalog: 'not read yet' } };

export function startStagesThread(start: StagesStart): StagesThread {
  const worker = new Worker(new URL('./worker.ts', import.meta.url), {
    workerData: start,
    transferList: start.liveLink === undefined ? [] : [start.liveLink],
    name: 'stages',
  });
  const send = (message: ToStages) => worker.postMessage(message);
  let reporting: PromiseWithResolvers<MetricsSnapshot> | undefined;
  const running = Promise.withResolvers<void>();
  const stopped = Promise.withResolvers<void>();
  const failed = Promise.withResolvers<never>();
  for (const { promise } of [running, failed]) promise.catch(() => {}); // whoever starts it may look later
  let readiness = STARTING;
  let gone = false;

  const report = (snapshot: MetricsSnapshot) => {
    reporting?.resolve(snapshot);
    reporting = undefined;
  };
  const fail = (error: StagesFailed) => {
    running.reject(error);
    failed.reject(error);
  };
  const end = (error: StagesFailed) => {
    gone = true;
    fail(error);
    stopped.resolve();
    report([]);
  };
  worker.on('message', (message: FromStages) => {
    if (message.type === 'running') running.resolve();
    else if (message.type === 'stopped') stopped.resolve();
    else if (message.type === 'failed') fail(new StagesFailed(message.message));
    else if (message.type === 'readiness') readiness = message.readiness;
    else report(message.snapshot);
  });
  worker.on('error', (error) =>
    end(new StagesFailed(`the stages failed: ${messageOf(error)}`, { cause: error })),
  );
  worker.on('exit', (code) => end(new StagesFailed(`the stages ended with code ${code}`)));

  return {
    running: running.promise,
    failed: failed.promise,
    readiness: () => readiness,
    snapshot() {
      if (gone) return Promise.resolve([]);
      if (reporting === undefined) {
        reporting = Promise.withResolvers();
        send({ type: 'metrics' });
      }
      return reporting.promise;
    },
    async close() {
      send({ type: 'stop' });
      await stopped.promise;
      await worker.terminate();
    },
  };
}
