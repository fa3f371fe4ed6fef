import {
  type Backoff,
  type Clock,
  Fenced,
  InvalidInput,
  type Logger,
  type Metrics,
  messageOf,
  type Stage,
  type StageLag,
  type StageRun,
  TOPIC,
  type TopicSpec,
} from '@tributary/core';
import { type CommitThrottle, PartitionLost } from '../stage-runner/committer.ts';
import type { Cursor } from '../stage-runner/cursor.ts';
import { type OwnedPartition, PartitionLoop } from '../stage-runner/partition-loop.ts';
import type { CrashWatch } from '../suspects/crash-watch.ts';
import { familyOf } from './family.ts';
import type { FamilyReader } from './family-reader.ts';
import type { FamilyWatch } from './family-watch.ts';
import type { FamilyWriter } from './family-writer.ts';

/**
 * How often a flow stage stores a position that nothing is emitted with, at most. Each time costs an fsync, and nobody
 * waits for it; what a crash repeats is what was done in this time.
 */
const FLOW_THROTTLE: CommitThrottle = { pauseAfter: () => 0, positionMs: 50 };

const ONE_ENTRY = { maxBytes: 1, maxEntries: 1 };

export interface StageRunOptions {
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly readerOf: (spec: TopicSpec) => FamilyReader;
  readonly watchOf: (spec: TopicSpec) => FamilyWatch;
  /** The writer of the family that holds stages' emissions and positions. */
  readonly writer: FamilyWriter;
  readonly backoff: Backoff;
  readonly fetchBytes: number;
  readonly maxUncommitted: number;
  readonly crashes: CrashWatch;
  readonly stopGraceMs: number;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

interface RunningPartition {
  readonly spec: TopicSpec;
  readonly partition: number;
  readonly loop: PartitionLoop;
}

/** A stage at work on every partition of its sources. A later run of the same stage, anywhere, ends this one. */
export class SqliteStageRun implements StageRun {
  readonly ended: Promise<void>;
  readonly #stage: Stage;
  readonly #options: StageRunOptions;
  readonly #stopping = new AbortController();
  readonly #leaving = new AbortController();
  readonly #partitions: readonly RunningPartition[];

  /** Claims the partitions. `InvalidInput` for a stage this log cannot run, `Unavailable` when it does not answer. */
  static async start(stage: Stage, options: StageRunOptions): Promise<SqliteStageRun> {
    checkStage(stage, options.topics);
    const wanted = stage.reads.flatMap((source) => {
      const spec = specOf(options.topics, source.topic);
      return Array.from({ length: spec.partitions }, (_, partition) => ({ source, spec, partition }));
    });
    const claims = await options.writer.claim(
      wanted.map(({ spec, partition }) => {
        const start = options.readerOf(spec).first(spec.name, partition);
        return { stage: stage.name, topic: spec.name, partition, start };
      }),
    );
    return new SqliteStageRun(stage, options, (stopping, leaving) =>
      wanted.map(({ source, spec, partition }, i) => {
        const claim = claims[i];
        if (!claim) throw new Error(`no claim on ${spec.name}/${partition}`);
        const owned = own(stage, spec, partition, claim, options);
        return {
          spec,
          partition,
          loop: new PartitionLoop({ ...options, stage, source, owned, stopping, leaving }),
        };
      }),
    );
  }

  private constructor(
    stage: Stage,
    options: StageRunOptions,
    partitions: (stopping: AbortSignal, leaving: AbortSignal) => readonly RunningPartition[],
  ) {
    this.#stage = stage;
    this.#options = options;
    this.#partitions = partitions(this.#stopping.signal, this.#leaving.signal);
    this.ended = this.#run();
    // Who stops the run without looking at `ended` must not crash on it: it was logged.
    this.ended.catch(() => {});
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    const grace = setTimeout(() => this.#leave(), this.#options.stopGraceMs);
    await this.ended.catch(() => {});
    clearTimeout(grace);
  }

  async lag(): Promise<readonly StageLag[]> {
    return this.#partitions.map(({ spec, partition, loop }) => {
      const reader = this.#options.readerOf(spec);
      const lag = reader.entriesBehind(spec.name, partition, loop.committed);
      const about = { topic: spec.name, partition, lag, events: lag, isOwned: true };
      if (lag === 0) return about;
      const [oldest] = reader.read(spec.name, partition, spec.packed, loop.committed, ONE_ENTRY);
      return { ...about, ...(oldest === undefined ? {} : { oldestAt: oldest.entry.timestamp }) };
    });
  }

  async #run(): Promise<void> {
    const loops = this.#partitions.map(({ loop }) => loop.run());
    try {
      await Promise.all(loops);
    } catch (thrown) {
      const reason =
        thrown instanceof PartitionLost && thrown.cause instanceof Fenced ? thrown.cause : thrown;
      this.#options.logger.error({ stage: this.#stage.name, error: messageOf(reason) }, 'stage died');
      this.#stopping.abort();
      this.#leave();
      await Promise.allSettled(loops);
      throw reason;
    }
  }

  #leave(): void {
    this.#leaving.abort(new Error(`stage ${this.#stage.name} leaves`));
  }
}

function own(
  stage: Stage,
  spec: TopicSpec,
  partition: number,
  claim: { readonly generation: number; readonly committed: Cursor },
  options: StageRunOptions,
): OwnedPartition {
  const topic = spec.name;
  const [reader, watch] = [options.readerOf(spec), options.watchOf(spec)];
  return {
    topic,
    partition,
    committed: claim.committed,
    ...(stage.kind === 'flow' ? { throttle: FLOW_THROTTLE } : {}),
    async fetch(from, limits, signal) {
      while (!signal.aborted) {
        // Between two reads everybody else gets a turn.
        await new Promise((resolve) => setImmediate(resolve));
        const end = reader.knownEnd(topic, partition);
        const taken = reader.read(topic, partition, spec.packed, from, limits);
        if (taken.length > 0) return taken;
        // What lay before an end that was known is kept no more where it is not found.
        await watch.until(topic, partition, Math.max(from.offset, end), [signal]);
      }
      return [];
    },
    end: async () => reader.end(topic, partition),
    commit: (from, to, emissions) =>
      options.writer.commit({
        stage: stage.name,
        topic,
        partition,
        generation: claim.generation,
        from,
        to,
        emissions,
      }),
  };
}

function checkStage(stage: Stage, topics: ReadonlyMap<string, TopicSpec>): void {
  for (const topic of [...stage.writes, TOPIC.poison]) {
    // What a stage emits becomes durable with its position, so it has to live in the same files.
    if (familyOf(specOf(topics, topic)) !== 'stages') {
      throw new InvalidInput(`stage "${stage.name}" cannot emit to "${topic}"`);
    }
  }
}

export function specOf(topics: ReadonlyMap<string, TopicSpec>, topic: string): TopicSpec {
  const spec = topics.get(topic);
  if (!spec) throw new InvalidInput(`unknown topic "${topic}"`);
  return spec;
}
