import {
  type Backoff,
  backoffMs,
  type Clock,
  type Logger,
  type Metrics,
  messageOf,
  type Source,
  type Stage,
  TributaryError,
} from '@tributary/core';
import { PartitionLoop, type StageSpace } from '../../stage-runner/partition-loop.ts';
import type { CrashWatch } from '../../stage-runner/suspects.ts';
import type { Cursor } from '../../stage-runner/work.ts';
import { PartitionLost, pause, unlessAborted } from '../../stage-runner/work.ts';
import { PositionUnknown } from '../positions/starting-point.ts';
import type { KafkaPartition } from './owned-partition.ts';

export interface PartitionWorkOptions {
  readonly stage: Stage;
  readonly source: Source;
  readonly partition: number;
  /** Takes the partition over. `leaving` fires when this process loses it. */
  readonly acquire: (leaving: AbortSignal) => Promise<KafkaPartition>;
  /** Settles when earlier work of this process on the partition has ended. */
  readonly after: Promise<unknown>;
  readonly fetchBytes: number;
  readonly maxUncommitted: number;
  readonly crashes: CrashWatch;
  readonly space: StageSpace;
  readonly backoff: Backoff;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/** How often a lost position is looked up again, and how often it is reported, ms. */
const RETRY_POSITION_MS = 2_000;
const REPORT_EVERY_MS = 60_000;

/** A partition at work in this process, from the rebalance that assigns it to the one that moves it. */
export class PartitionWork {
  /** Resolves when no entry of the partition is at work any more; rejects with a fault that no repetition heals. */
  readonly ended: Promise<void>;
  readonly #options: PartitionWorkOptions;
  readonly #stopping = new AbortController();
  readonly #leaving = new AbortController();
  #loop: PartitionLoop | undefined;
  /** By `performance.now()`: when it was last reported that the position is unknown. */
  #unknownReportedAt = Number.NEGATIVE_INFINITY;

  constructor(options: PartitionWorkOptions) {
    this.#options = options;
    this.ended = this.#run();
    this.ended.catch(() => {}).finally(() => this.#noteKnown());
  }

  /** All entries before it are done; undefined until the partition is taken over. */
  get reached(): Cursor | undefined {
    return this.#loop?.reached;
  }

  /** Takes no more entries and finishes those in flight; drops the rest after `graceMs`. */
  async finish(graceMs: number): Promise<void> {
    this.#stopping.abort();
    // No entry was taken.
    if (!this.#loop) this.drop();
    const grace = setTimeout(() => this.drop(), graceMs);
    await this.ended.catch(() => {});
    clearTimeout(grace);
  }

  /** Drops everything at once. */
  drop(): void {
    this.#stopping.abort();
    this.#leaving.abort(
      new PartitionLost(`${this.#options.source.topic}/${this.#options.partition} moved to another process`),
    );
  }

  async #run(): Promise<void> {
    const { after, backoff, logger, stage, source, partition } = this.#options;
    await after.catch(() => {});
    for (let failures = 0; !this.#stopping.signal.aborted; ) {
      try {
        const leaving = this.#leaving.signal;
        this.#loop = undefined;
        this.#loop = this.#loopOver(await unlessAborted(this.#options.acquire(leaving), leaving));
        this.#noteKnown();
        failures = 0;
        await this.#loop.run();
      } catch (thrown) {
        if (this.#stopping.signal.aborted && !isFault(thrown)) return;
        if (isFault(thrown)) throw thrown;
        if (thrown instanceof PositionUnknown) {
          this.#noteUnknown(thrown);
          await pause(RETRY_POSITION_MS, this.#stopping.signal);
          continue;
        }
        const fields = { stage: stage.name, topic: source.topic, partition, error: messageOf(thrown) };
        if (thrown instanceof TributaryError && !thrown.retryable)
          logger.error(fields, 'the partition stopped with an error and is taken over again');
        else logger.warn(fields, 'the partition will be taken over again');
        await pause(backoffMs(failures++, backoff), this.#stopping.signal);
      }
    }
  }

  /** Logged as an error, once a minute. */
  #noteUnknown({ message }: PositionUnknown): void {
    const { stage, source, partition, metrics, logger } = this.#options;
    const labels = { stage: stage.name, topic: source.topic, partition: String(partition) };
    metrics.gauge('tributary_stage_position_unknown', 1, labels);
    const now = performance.now();
    if (now < this.#unknownReportedAt + REPORT_EVERY_MS) return;
    this.#unknownReportedAt = now;
    logger.error({ stage: stage.name, topic: source.topic, partition }, message);
  }

  #noteKnown(): void {
    if (this.#unknownReportedAt === Number.NEGATIVE_INFINITY) return;
    const { stage, source, partition, metrics } = this.#options;
    const labels = { stage: stage.name, topic: source.topic, partition: String(partition) };
    metrics.removeGauge('tributary_stage_position_unknown', labels);
    this.#unknownReportedAt = Number.NEGATIVE_INFINITY;
  }

  #loopOver(owned: KafkaPartition): PartitionLoop {
    return new PartitionLoop({
      ...this.#options,
      owned,
      stopping: this.#stopping.signal,
      leaving: this.#leaving.signal,
    });
  }
}

/**
 * A lost partition is no fault, nor is an error of an engine, also one that no repetition heals: the process continues with
 * its other partitions, and with this one once an operator has corrected the cause.
 */
function isFault(thrown: unknown): boolean {
  return !(thrown instanceof PartitionLost || thrown instanceof TributaryError);
}
