import { Worker } from 'node:worker_threads';
import type { Config } from '../config/settings.ts';
import type { MetricsSnapshot } from '../observability/metrics.ts';
import type { FromStages, StagesStart, ToStages } from './messages.ts';

/** The stages at work in a thread of this process, so that what they do never delays an answer of the gateway. */
export interface StagesThread {
  snapshot(): Promise<MetricsSnapshot>;
  /** Finishes what was taken, commits, leaves. */
  stop(): Promise<void>;
  /** Rejects when the thread died: the process must leave, its supervisor starts it again. */
  readonly died: Promise<never>;
}

/** Resolves once the stages run. */
export async function startStagesThread(config: Config): Promise<StagesThread> {
  const start: StagesStart = { config };
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: start, name: 'stages' });
  const send = (message: ToStages) => worker.postMessage(message);
  const snapshots = new Map<number, (snapshot: MetricsSnapshot) => void>();
  const running = Promise.withResolvers<void>();
  const stopped = Promise.withResolvers<void>();
  const died = Promise.withResolvers<never>();
  died.promise.catch(() => {}); // whoever starts the thread may look at it later
  let stopping = false;
  let requests = 0;

  worker.on('message', (message: FromStages) => {
    if (message.type === 'running') running.resolve();
    else if (message.type === 'stopped') stopped.resolve();
    else {
      snapshots.get(message.request)?.(message.snapshot);
      snapshots.delete(message.request);
    }
  });
  const fail = (error: Error) => {
    running.reject(error);
    stopped.resolve();
    if (!stopping) died.reject(error);
    for (const resolve of snapshots.values()) resolve([]);
  };
  worker.on('error', fail);
  worker.on('exit', (code) => fail(new Error(`the stages ended with code ${code}`)));

  await running.promise;
  return {
    snapshot() {
      const request = ++requests;
      return new Promise((resolve) => {
        snapshots.set(request, resolve);
        send({ type: 'metrics', request });
      });
    },
    async stop() {
      stopping = true;
      send({ type: 'stop' });
      await stopped.promise;
      await worker.terminate();
    },
    died: died.promise,
  };
}
