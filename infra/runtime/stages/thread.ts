import { Worker } from 'node:worker_threads';
import { iso, type Logger, messageOf, type NewEntry } from '@tributary/core';
import { crashEntries } from '../../adapters/event-log/suspects/crash-notes.ts';
import {
  inHandMemory,
  rangesInHand,
  type SlotName,
} from '../../adapters/event-log/suspects/in-hand-table.ts';
import type { MetricsSnapshot } from '../observability/metrics.ts';
import type { Readiness } from '../observability/operations.ts';
import { CrashEvidence } from './crash-evidence.ts';
import type { FromStages, StagesStart, StagesThreadData, ToStages } from './messages.ts';

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

/** How long a process that ends by its own fault tries to note it, ms: the next one does without. */
const NOTE_WITHIN_MS = 5_000;

export interface StagesThreadTools {
  readonly logger: Logger;
  /** Makes entries of `stages.crashes` durable. */
  noteCrash(entries: readonly NewEntry[]): Promise<unknown>;
}

export async function startStagesThread(
  start: StagesStart,
  { logger, noteCrash }: StagesThreadTools,
): Promise<StagesThread> {
  const evidence = new CrashEvidence(start.config.dataFolder, logger);
  for (const { reason, ranges } of evidence.take())
    await noteInTime(noteCrash(crashEntries(ranges, reason, iso(Date.now()))), reason, logger);
  const inHand = inHandMemory();
  const workerData: StagesThreadData = { ...start, inHand };
  const { stagesHeapMib } = start.config;
  const worker = new Worker(new URL('./worker.ts', import.meta.url), {
    workerData,
    transferList: start.liveLink === undefined ? [] : [start.liveLink],
    name: 'stages',
    ...(stagesHeapMib === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: stagesHeapMib } }),
  });
  const partitions = new Map<number, SlotName>();
  evidence.begin(inHand, partitions);
  const send = (message: ToStages) => worker.postMessage(message);
  let reporting: PromiseWithResolvers<MetricsSnapshot> | undefined;
  const running = Promise.withResolvers<void>();
  const stopped = Promise.withResolvers<void>();
  const failed = Promise.withResolvers<never>();
  for (const { promise } of [running, failed]) promise.catch(() => {}); // the caller may look later
  let readiness = STARTING;
  let gone = false;
  let isTerminated = false;
  let died: Error | undefined;

  const report = (snapshot: MetricsSnapshot) => {
    reporting?.resolve(snapshot);
    reporting = undefined;
  };
  const fail = (error: StagesFailed) => {
    running.reject(error);
    failed.reject(error);
  };
  /** The thread ended although it was not asked to: the entries in hand are noted before the process leaves. */
  const ended = async (code: number) => {
    gone = true;
    report([]);
    const reason =
      died === undefined ? `the stages ended with code ${code}` : `the stages failed: ${messageOf(died)}`;
    if (!isTerminated) {
      const entries = crashEntries(rangesInHand(inHand, partitions), reason, iso(Date.now()));
      await noteInTime(noteCrash(entries), reason, logger);
    }
    evidence.close();
    fail(new StagesFailed(reason, { cause: died }));
    stopped.resolve();
  };
  worker.on('message', (message: FromStages) => {
    if (message.type === 'running') running.resolve();
    else if (message.type === 'stopped') stopped.resolve();
    else if (message.type === 'failed') fail(new StagesFailed(message.message));
    else if (message.type === 'in hand') partitions.set(message.slot, message.name);
    else if (message.type === 'readiness') readiness = message.readiness;
    else report(message.snapshot);
  });
  worker.on('error', (error: Error) => {
    died = error; // the exit follows
  });
  worker.on('exit', (code) => void ended(code));

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
      isTerminated = true;
      await worker.terminate();
    },
  };
}

async function noteInTime(noting: Promise<unknown>, reason: string, logger: Logger): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${NOTE_WITHIN_MS} ms`)), NOTE_WITHIN_MS);
  });
  try {
    await Promise.race([noting, late]);
    logger.error(
      { reason },
      'the stages ended; what they had in hand is noted, and tried one by one at the next start',
    );
  } catch (error) {
    logger.error(
      { reason, error: messageOf(error) },
      'the stages ended, and what they had in hand is not noted',
    );
  } finally {
    clearTimeout(timer);
  }
}
