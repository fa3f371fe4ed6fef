import {
  type Backoff,
  type BatchStage,
  backoffMs,
  type Clock,
  type FlowStage,
  type LogEntry,
  type Logger,
  type Metrics,
  messageOf,
  type OutputRecord,
  Rewind,
  type Source,
  type Stage,
} from '@tributary/core';
import type { Suspects } from '../suspects/crash-notes.ts';
import type { CrashWatch } from '../suspects/crash-watch.ts';
import type { InHand } from '../suspects/in-hand-table.ts';
import { quarantineTaken, workBatch } from './batch-work.ts';
import { type CommitRest, Committer } from './committer.ts';
import { type Cursor, earlier, type Taken } from './cursor.ts';
import { dueNow } from './due.ts';
import { failureOf } from './failure.ts';
import { FlowWork } from './flow-work.ts';
import { pause, unlessAborted } from './waiting.ts';
import type { Work } from './work.ts';

const DEFAULT_BATCH_ENTRIES = 1_000;

/** Who waits longer than this for its head does not keep what is behind it in memory meanwhile, ms. */
const LONG_WAIT_MS = 1_000;

/** How long a stop waits for the last position to be stored, ms: whoever takes over gets there again. */
const LAST_POSITION_MS = 2_000;

export interface FetchLimits {
  /** At least one record is returned when there is one, however large. */
  readonly maxBytes: number;
  /** Not cutting a record in two. */
  readonly maxEntries: number;
  /** For how long more may be waited for once there is something, ms. Default 0. */
  readonly gatherMs?: number;
  /** For how long the first may be waited for, ms; then nothing is answered. Default: until there is one. */
  readonly waitMs?: number;
}

/** The engine's part: one partition that this process owns for a stage. */
export interface OwnedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly committed: Cursor;
  /** Entries from the cursor on, in order. Waits until there are some; empty once the signal fired or `waitMs` passed. */
  fetch(from: Cursor, limits: FetchLimits, signal: AbortSignal): Promise<readonly Taken[]>;
  /** See `StageContext.end`. */
  readonly end?: () => Promise<number>;
  /** See `CommitterOptions.commit`. */
  commit(from: Cursor, to: Cursor, emissions: readonly OutputRecord[]): Promise<void>;
  /** Absent: the engine need not be left alone. */
  readonly rest?: CommitRest;
}

export interface LoopOptions {
  readonly stage: Stage;
  readonly source: Source;
  readonly owned: OwnedPartition;
  /** Fires when nothing more is to be taken. */
  readonly stopping: AbortSignal;
  /** Fires when what was taken is to be dropped. */
  readonly leaving: AbortSignal;
  readonly backoff: Backoff;
  readonly fetchBytes: number;
  readonly maxUncommitted: number;
  readonly crashes: CrashWatch;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/** Pulls one partition through a stage, on its own: what it waits for delays no other partition. */
export class PartitionLoop {
  readonly #options: LoopOptions;
  readonly #committer: Committer;
  readonly #writes: ReadonlySet<string>;
  /** How often in a row the partition was begun anew without a commit in between. */
  #restarts = 0;
  /** Undefined once all of them went by. */
  #suspects: Suspects | undefined;

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#writes = new Set(options.stage.writes);
    const { owned, stage, backoff, metrics, logger } = options;
    this.#committer = new Committer({
      stage: stage.name,
      topic: owned.topic,
      partition: owned.partition,
      committed: owned.committed,
      commit: (from, to, emissions) => owned.commit(from, to, emissions),
      rest: owned.rest,
      backoff,
      metrics,
      logger,
    });
  }

  get committed(): Cursor {
    return this.#committer.committed;
  }

  /** See `Committer.reached`. */
  get reached(): Cursor {
    return this.#committer.reached;
  }

  /** Resolves once stopped (or left); rejects with `PartitionLost` or a fault that no repetition heals. */
  async run(): Promise<void> {
    const { stage, owned, crashes } = this.#options;
    const { topic, partition } = owned;
    this.#suspects = await this.#answered('reading noted crashes', () =>
      crashes.notes.suspectsOf(stage.name, topic, partition),
    );
    const inHand = crashes.table.open({ stage: stage.name, topic, partition });
    try {
      await this.#run(inHand);
    } finally {
      inHand.close();
    }
  }

  async #run(inHand: InHand): Promise<void> {
    const { stopping, leaving } = this.#options;
    let from = this.committed;
    while (!stopping.aborted) {
      const committedBefore = this.committed;
      try {
        await this.#pull(from, inHand);
      } catch (thrown) {
        if (leaving.aborted) return;
        from = this.#restartFrom(thrown);
        this.#restarts = this.committed === committedBefore ? this.#restarts + 1 : 0;
        await pause(
          this.#restarts === 0 ? 0 : backoffMs(this.#restarts - 1, this.#options.backoff),
          stopping,
        );
      }
    }
  }

  /** Where to go on after what ended a pull; throws it again when there is no going on. */
  #restartFrom(thrown: unknown): Cursor {
    const { stage, owned, logger } = this.#options;
    const failure = failureOf(thrown);
    if (failure !== 'rewind' && failure !== 'restart') throw thrown;
    const { topic, partition } = owned;
    logger.warn({ stage: stage.name, topic, partition, error: messageOf(thrown) }, 'partition begins anew');
    if (!(thrown instanceof Rewind)) return this.committed;
    return earlier({ offset: Math.max(0, thrown.offset), index: 0 }, this.committed);
  }

  async #pull(from: Cursor, inHand: InHand): Promise<void> {
    const own = new AbortController();
    const { signal } = own;
    const { leaving, backoff, clock, metrics, logger, stage, owned } = this.#options;
    // A signal of several looks at each of them whenever it is asked, which is for every entry.
    const leave = () => own.abort(leaving.reason);
    leaving.addEventListener('abort', leave, { once: true, signal });
    if (leaving.aborted) leave();
    const work: Work = {
      stage: stage.name,
      writes: this.#writes,
      committer: this.#committer,
      inHand,
      positionsMayWait: stage.kind === 'flow' || stage.repeats !== 'visible',
      context: owned.end === undefined ? { signal } : { signal, end: owned.end },
      signal,
      stopping: this.#options.stopping,
      backoff,
      clock,
      metrics,
      logger,
    };
    this.#committer.forget();
    try {
      if (stage.kind === 'batch') await this.#pullBatches(stage, from, work);
      else await this.#pullFlow(stage, from, work, own);
    } finally {
      own.abort(new Error('the partition begins anew or was left'));
      inHand.clear();
    }
  }

  async #pullBatches(stage: BatchStage, from: Cursor, work: Work): Promise<void> {
    const maxEntries = stage.maxEntries ?? DEFAULT_BATCH_ENTRIES;
    for await (const ready of this.#ready(from, maxEntries)) {
      if (ready.length === 0) await this.#settle(work.signal, this.#options.stopping);
      for (let at = 0; at < ready.length && !this.#options.stopping.aborted; ) {
        const batch = this.#cutSuspect(this.#cutReplay(ready.slice(at, at + maxEntries)));
        await this.#hold();
        await this.#handBatch(stage, batch, work);
        at += batch.length;
      }
    }
    const soon = AbortSignal.timeout(LAST_POSITION_MS);
    await unlessAborted(this.#settle(work.signal, soon), soon).catch((thrown: unknown) => {
      if (!soon.aborted) throw thrown;
    });
  }

  /** Stores what was reached, repeating it until `over` fires: the position is not worth a stop that takes long. */
  async #settle(signal: AbortSignal, over: AbortSignal): Promise<void> {
    try {
      await this.#committer.settle(AbortSignal.any([signal, over]));
    } catch (thrown) {
      if (signal.aborted || !over.aborted) throw thrown;
    }
  }

  /** Entries read again after a rewind come in batches of their own, so that what those emit can be dropped. */
  #cutReplay(batch: readonly Taken[]): readonly Taken[] {
    const fresh = batch.findIndex(({ entry }) => !this.#committer.isReplay(entry.position));
    return fresh > 0 ? batch.slice(0, fresh) : batch;
  }

  /** A suspect makes a batch of its own. */
  #cutSuspect(batch: readonly Taken[]): readonly Taken[] {
    if (this.#suspects === undefined) return batch;
    const suspect = batch.findIndex(({ entry }) => this.#crashesOf(entry) > 0);
    return suspect < 0 ? batch : batch.slice(0, Math.max(1, suspect));
  }

  async #handBatch(stage: BatchStage, batch: readonly Taken[], work: Work): Promise<void> {
    const [first] = batch;
    const crashes = first === undefined ? 0 : this.#crashesOf(first.entry);
    const { turns } = this.#options.crashes;
    if (first === undefined || crashes === 0) return workBatch(stage, batch, work);
    const guilt = this.#guiltOf(first.entry);
    if (guilt !== undefined) return quarantineTaken(first, guilt, work);
    if (!turns.wants(crashes)) return workBatch(stage, batch, work);
    let working = Promise.resolve();
    await turns.alone(
      work.inHand,
      () => {
        working = workBatch(stage, batch, work);
        return working;
      },
      work.signal,
    );
    await working;
  }

  #guiltOf(entry: LogEntry): string | undefined {
    if (this.#options.stage.neverQuarantines === true) return undefined;
    return this.#suspects?.guiltOf(entry);
  }

  /** At how many crashes the entry was in hand; forgets the suspects behind which it lies. */
  #crashesOf(entry: LogEntry): number {
    if (this.#suspects?.arePassedBy(entry.position) === true) this.#suspects = undefined;
    return this.#suspects?.crashesOf(entry) ?? 0;
  }

  /** Waits while a suspect is to be the only entry in hand. */
  async #hold(): Promise<void> {
    const { stopping, crashes } = this.#options;
    for (let { held } = crashes.turns; held !== undefined && !stopping.aborted; held = crashes.turns.held)
      await unlessAborted(held, stopping).catch(() => {});
  }

  async #pullFlow(stage: FlowStage, from: Cursor, work: Work, own: AbortController): Promise<void> {
    const { stopping, leaving, maxUncommitted } = this.#options;
    const flow = new FlowWork(stage, work, maxUncommitted);
    try {
      for await (const ready of this.#ready(from, DEFAULT_BATCH_ENTRIES, flow.ended)) {
        for (const taken of ready) {
          if (this.#suspects !== undefined && this.#crashesOf(taken.entry) > 0)
            await this.#handSuspect(flow, taken, work);
          else {
            if (this.#options.crashes.turns.held !== undefined) await this.#hold();
            while (!stopping.aborted && !flow.tryAdmit(taken)) await flow.changed();
          }
          if (stopping.aborted) break;
        }
      }
      await flow.drained();
    } catch (thrown) {
      own.abort(thrown);
      // The next pull hands the same entries over again: never while the stage still has them.
      await flow.settled(leaving);
      throw thrown;
    }
  }

  async #handSuspect(flow: FlowWork, taken: Taken, work: Work): Promise<void> {
    const { stopping, crashes } = this.#options;
    const admitted = async () => {
      while (!stopping.aborted && !flow.tryAdmit(taken)) await flow.changed();
    };
    const guilt = this.#guiltOf(taken.entry);
    if (guilt !== undefined) flow.quarantine(taken, guilt);
    else if (!crashes.turns.wants(this.#crashesOf(taken.entry))) await admitted();
    else {
      flow.hurried = true;
      await crashes.turns.alone(
        work.inHand,
        async () => {
          await admitted();
          await flow.drained();
        },
        work.signal,
      );
      flow.hurried = false;
    }
  }

  /**
   * What the source has from the cursor on and what is due, until stopping or `ended` fires; nothing, when nothing came
   * while a position waits to be stored.
   */
  async *#ready(from: Cursor, maxEntries: number, ended?: AbortSignal): AsyncGenerator<readonly Taken[]> {
    const { stopping, source, clock } = this.#options;
    const signal = ended ? AbortSignal.any([stopping, ended]) : stopping;
    let cursor = from;
    let waiting: readonly Taken[] = [];
    let readAt = 0;
    while (!signal.aborted) {
      if (waiting.length === 0) {
        waiting = await this.#fetch(cursor, maxEntries, signal);
        readAt = clock();
        cursor = waiting.at(-1)?.after ?? cursor;
        if (waiting.length === 0) yield [];
        continue;
      }
      const due = dueNow(source, waiting, readAt, clock());
      if (due.wakeAt !== undefined) {
        const waitMs = due.wakeAt - clock();
        if (waitMs > LONG_WAIT_MS) {
          waiting = waiting.slice(0, 1);
          cursor = waiting[0]?.after ?? cursor;
        }
        const { isBehind } = this.#committer;
        const positionMs = isBehind ? this.#committer.positionRestMs() : LONG_WAIT_MS;
        // Looking again in between costs little and heals a clock that jumped.
        if (positionMs > 0) await pause(Math.min(waitMs, LONG_WAIT_MS, positionMs), signal);
        if (isBehind) yield [];
        continue;
      }
      yield waiting.slice(0, due.count);
      waiting = waiting.slice(due.count);
    }
  }

  async #fetch(from: Cursor, maxEntries: number, signal: AbortSignal): Promise<readonly Taken[]> {
    const { owned, stage, fetchBytes } = this.#options;
    const fetched = await this.#answered(
      'fetch',
      () => {
        // A flow stage hands on at once and rests before it commits.
        const gatherMs = stage.kind === 'batch' ? this.#committer.restMs() : 0;
        const waitMs = this.#committer.isBehind ? this.#committer.positionRestMs() : undefined;
        const limits = { maxBytes: fetchBytes, maxEntries, gatherMs };
        return owned.fetch(from, waitMs === undefined ? limits : { ...limits, waitMs }, signal);
      },
      signal,
    );
    return fetched ?? [];
  }

  /** The answer of the engine, asked for again for as long as it takes; undefined once the signal fired. */
  async #answered<T>(
    what: string,
    ask: () => Promise<T>,
    signal = this.#options.stopping,
  ): Promise<T | undefined> {
    const { owned, stage, backoff, logger } = this.#options;
    for (let repetition = 0; !signal.aborted; repetition++) {
      try {
        return await ask();
      } catch (thrown) {
        if (failureOf(thrown) !== 'repeat') throw thrown;
        const { topic, partition } = owned;
        const fields = { stage: stage.name, topic, partition, repetition, error: messageOf(thrown) };
        logger.warn(fields, `${what} will be repeated`);
        await pause(backoffMs(repetition, backoff), signal);
      }
    }
    return undefined;
  }
}
