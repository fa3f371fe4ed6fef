import { type MessagePort, Worker } from 'node:worker_threads';
import { iso, type Logger, messageOf, type NewEntry, type ProcessStage, withTimeout } from '@tributary/core';
import {
  crashEntries,
  InFlightMemory,
  type SlotName,
} from '../../adapters/event-log/stage-runner/suspects.ts';
import type { Config } from '../config/settings.ts';
import type { MetricsSnapshot } from '../observability/metrics.ts';
import type { Readiness } from '../observability/operations.ts';
import { OperatorError } from '../process/lifecycle.ts';
import { CrashEvidence } from './crash-evidence.ts';

/** The stages could not start, or one of them died. The process must exit; its supervisor starts it again. */
export class StagesFailed extends OperatorError {}

/**
 * The stages, in a thread of this process, so that they never delay answers of the gateway or of the health routes.
 */
export interface StagesThread {
  /** Resolves once the stages run; rejects with `StagesFailed`. */
  readonly running: Promise<void>;
  /** Rejects with `StagesFailed` if the stages fail, at their start or later. */
  readonly failed: Promise<never>;
  /** The last state that the thread reported. */
  readiness(): Readiness;
  /** The stages of the thread and what they owned at the last report. */
  stages(): readonly ProcessStage[];
  /** Pending while the thread is busy; concurrent calls share one request. */
  snapshot(): Promise<MetricsSnapshot>;
  /** Finishes and commits the work under way, then ends the thread. Idempotent. */
  close(): Promise<void>;
}

/** The state before the first report of the stages. */
export const STARTING: Readiness = { ready: false, checks: { catalog: 'not read yet' } };

/** How long a crashed process tries to write its crash notes, ms. */
const NOTE_WITHIN_MS = 5_000;

export interface StagesThreadTools {
  readonly logger: Logger;
  /** Appends entries to `stages.crashes`. */
  noteCrash(entries: readonly NewEntry[]): Promise<unknown>;
}

export async function startStagesThread(
  start: StagesStart,
  { logger, noteCrash }: StagesThreadTools,
): Promise<StagesThread> {
  const evidence = new CrashEvidence(start.config.dataFolder, logger);
  for (const { reason, ranges } of evidence.take()) {
    const failure = await noteInTime(noteCrash(crashEntries(ranges, reason, iso(Date.now()))));
    logger.error(
      { reason, ...failure },
      failure === undefined
        ? 'the process before this one crashed; its records in flight are noted and retried one by one'
        : 'the process before this one crashed; its records in flight could not be noted',
    );
  }
  const inFlight = new InFlightMemory();
  const workerData: StagesThreadData = { ...start, inFlight: inFlight.memory };
  const { stagesHeapMib } = start.config;
  const worker = new Worker(new URL('./worker.ts', import.meta.url), {
    workerData,
    transferList: start.liveLink === undefined ? [] : [start.liveLink],
    name: 'stages',
    ...(stagesHeapMib === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: stagesHeapMib } }),
  });
  evidence.begin(inFlight);
  const send = (message: ToStages) => worker.postMessage(message);
  let reporting: PromiseWithResolvers<MetricsSnapshot> | undefined;
  const running = Promise.withResolvers<void>();
  const stopped = Promise.withResolvers<void>();
  const failed = Promise.withResolvers<never>();
  for (const { promise } of [running, failed]) promise.catch(() => {}); // handled by the caller, perhaps later
  let readiness = STARTING;
  let owned: readonly ProcessStage[] = [];
  let hasExited = false;
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
  /** Unless the thread was terminated, it has crashed: the entries in flight are noted before the process exits. */
  const ended = async (code: number) => {
    hasExited = true;
    report([]);
    const reason =
      died === undefined ? `the stages ended with code ${code}` : `the stages failed: ${messageOf(died)}`;
    if (!isTerminated) {
      const entries = crashEntries(inFlight.ranges(), reason, iso(Date.now()));
      const failure = await noteInTime(noteCrash(entries));
      logger.error(
        { reason, ...failure },
        failure === undefined
          ? 'the thread of the stages ended; its records in flight are noted and retried one by one at the next start'
          : 'the thread of the stages ended; its records in flight could not be noted',
      );
    }
    evidence.close();
    fail(new StagesFailed(reason, { cause: died }));
    stopped.resolve();
  };
  worker.on('message', (message: FromStages) => {
    if (message.type === 'running') running.resolve();
    else if (message.type === 'stopped') stopped.resolve();
    else if (message.type === 'failed') fail(new StagesFailed(message.message));
    else if (message.type === 'in flight') inFlight.named(message.slot, message.name);
    else if (message.type === 'readiness') readiness = message.readiness;
    else if (message.type === 'stages') owned = message.stages;
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
    stages: () => owned,
    snapshot() {
      if (hasExited) return Promise.resolve([]);
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

/** Waits until crash notes are written; returns why they are not. */
async function noteInTime(noting: Promise<unknown>): Promise<{ readonly error: string } | undefined> {
  try {
    await withTimeout(noting, NOTE_WITHIN_MS, `not within ${NOTE_WITHIN_MS} ms`);
    return undefined;
  } catch (error) {
    return { error: messageOf(error) };
  }
}

/** The input of the stages' thread. */
export interface StagesStart {
  readonly config: Config;
  /** The stages to run; all by default. */
  readonly stages?: readonly string[];
  /** Port to the gateway of this process, for its live tail. */
  readonly liveLink?: MessagePort;
}

/** With the memory for the entries in flight, see `InFlightTable`. */
export interface StagesThreadData extends StagesStart {
  readonly inFlight: SharedArrayBuffer;
}

export type ToStages = { readonly type: 'stop' } | { readonly type: 'metrics' };

export type FromStages =
  | { readonly type: 'running' }
  | { readonly type: 'stopped' }
  /** The stages cannot start, or one died; the message is for the operator. */
  | { readonly type: 'failed'; readonly message: string }
  /** Assigns a slot of the table of entries in flight to a partition. */
  | { readonly type: 'in flight'; readonly slot: number; readonly name: SlotName }
  | { readonly type: 'readiness'; readonly readiness: Readiness }
  | { readonly type: 'stages'; readonly stages: readonly ProcessStage[] }
  | { readonly type: 'metrics'; readonly snapshot: MetricsSnapshot };
