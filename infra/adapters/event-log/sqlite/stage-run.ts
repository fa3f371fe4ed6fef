import {
  type Backoff,
  type Clock,
  Fenced,
  InvalidInput,
  type Logger,
  type Metrics,
  messageOf,
  type Source,
  type Stage,
  type StageLag,
  type StageRun,
  TOPIC,
  type TopicSpec,
} from '@tributary/core';
import {
  entriesFrom,
  type OwnedPartition,
  PartitionLoop,
  type SharedReads,
  type StageSpace,
} from '../stage-runner/partition-loop.ts';
import type { CrashWatch } from '../stage-runner/suspects.ts';
import { type CommitThrottle, PartitionLost } from '../stage-runner/work.ts';
import type { TopicGroupReader } from './topic-groups/topic-group-reader.ts';
import type { TopicGroupWatch } from './topic-groups/topic-group-watch.ts';
import type { TopicGroupWriter } from './topic-groups/topic-group-writer.ts';
import { topicGroupOf } from './topic-groups/topic-groups.ts';
import type { Ownership } from './topic-groups/write-batch.ts';

/**
 * A flow stage stores a position without output records at most this often: each time costs an fsync. A crash repeats the
 * work of this interval.
 */
const FLOW_THROTTLE: CommitThrottle = { pauseAfter: () => 0, positionMs: 50 };

const ONE_ENTRY = { maxBytes: 1, maxEntries: 1 };

export interface StageRunOptions {
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The topic group of a source. */
  readonly groupOf: (spec: TopicSpec) => {
    readonly reader: TopicGroupReader;
    readonly watch: TopicGroupWatch;
  };
  readonly shared: Pick<SharedReads, 'of'>;
  /** The writer of the topic group `stages`, which holds output records and positions. */
  readonly writer: TopicGroupWriter;
  readonly backoff: Backoff;
  readonly fetchBytes: number;
  readonly maxUncommitted: number;
  readonly crashes: CrashWatch;
  readonly space: StageSpace;
  readonly stopGraceMs: number;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

interface OwnedSource {
  readonly source: Source;
  readonly spec: TopicSpec;
  readonly partition: number;
  readonly ownership: Ownership;
}

interface RunningPartition {
  readonly spec: TopicSpec;
  readonly partition: number;
  readonly loop: PartitionLoop;
}

/** A stage running on every partition of its sources. A later run of the same stage, in any process, ends this one. */
export class SqliteStageRun implements StageRun {
  readonly ended: Promise<void>;
  readonly #stage: Stage;
  readonly #options: StageRunOptions;
  readonly #stopping = new AbortController();
  readonly #leaving = new AbortController();
  readonly #partitions: readonly RunningPartition[];

  /** Takes ownership of the partitions. `InvalidInput` for a stage that this log cannot run; else `Unavailable`. */
  static async start(stage: Stage, options: StageRunOptions): Promise<SqliteStageRun> {
    checkStage(stage, options.topics);
    const partitions = stage.reads.flatMap((source) => {
      const spec = specOf(options.topics, source.topic);
      return Array.from({ length: spec.partitions }, (_, partition) => ({ source, spec, partition }));
    });
    const owned = await options.writer.claimOwnership(
      partitions.map(({ spec, partition }) => {
        const start = options.groupOf(spec).reader.first(spec.name, partition);
        return { stage: stage.name, topic: spec.name, partition, start };
      }),
    );
    return new SqliteStageRun(
      stage,
      options,
      partitions.map((one, i) => {
        const ownership = owned[i];
        if (!ownership) throw new Error(`no ownership of ${one.spec.name}/${one.partition}`);
        return { ...one, ownership };
      }),
    );
  }

  private constructor(stage: Stage, options: StageRunOptions, partitions: readonly OwnedSource[]) {
    this.#stage = stage;
    this.#options = options;
    const [stopping, leaving] = [this.#stopping.signal, this.#leaving.signal];
    this.#partitions = partitions.map(({ source, spec, partition, ownership }) => {
      const owned = ownedPartition(stage, spec, partition, ownership, options);
      const loop = new PartitionLoop({ ...options, stage, source, owned, stopping, leaving });
      return { spec, partition, loop };
    });
    this.ended = this.#run();
    // The failure was logged; a caller that stops the run without reading `ended` must not see an unhandled rejection.
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
      const { reader } = this.#options.groupOf(spec);
      const lag = reader.entriesBehind(spec.name, partition, loop.committed);
      const [position, end] = [loop.committed.offset, reader.knownEnd(spec.name, partition)];
      const about = { topic: spec.name, partition, position, end, lag, events: lag };
      if (lag === 0) return about;
      const [oldest] = reader.read(spec.name, partition, spec.packed, loop.committed, ONE_ENTRY);
      return { ...about, ...(oldest === undefined ? {} : { oldestAt: oldest.entry.timestamp }) };
    });
  }

  owned() {
    return this.#partitions.map(({ spec, partition }) => ({ topic: spec.name, partition }));
  }

  async #run(): Promise<void> {
    const loops = this.#partitions.map(({ loop }) => loop.run());
    try {
      await Promise.all(loops);
    } catch (thrown) {
      const reason =
        thrown instanceof PartitionLost && thrown.cause instanceof Fenced ? thrown.cause : thrown;
      this.#options.logger.error(
        { stage: this.#stage.name, error: messageOf(reason) },
        'a stage failed for good; the process ends',
      );
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

function ownedPartition(
  stage: Stage,
  spec: TopicSpec,
  partition: number,
  { generation, committed }: Ownership,
  options: StageRunOptions,
): OwnedPartition {
  const topic = spec.name;
  const { reader, watch } = options.groupOf(spec);
  return {
    topic,
    partition,
    committed,
    ...(stage.kind === 'flow' ? { throttle: FLOW_THROTTLE } : {}),
    async fetch(from, limits, signal) {
      while (!signal.aborted) {
        // Reads are synchronous: yield to the event loop between two of them.
        await new Promise((resolve) => setImmediate(resolve));
        const end = reader.knownEnd(topic, partition);
        const recent = options.shared.of(topic, partition);
        const found = recent?.find(from);
        if (found !== undefined) return entriesFrom(found, from);
        const taken = reader.read(topic, partition, spec.packed, from, limits);
        const after = taken.at(-1)?.after;
        if (after !== undefined) {
          recent?.add({ from, after, taken });
          return taken;
        }
        // Records below the known end that the read did not find were dropped: wait for records after that end.
        await watch.until(topic, partition, Math.max(from.offset, end), [signal]);
      }
      return [];
    },
    end: async () => reader.end(topic, partition),
    commit: (from, to, outputRecords) =>
      options.writer.commit({
        stage: stage.name,
        topic,
        partition,
        generation,
        from,
        to,
        outputRecords,
      }),
  };
}

function checkStage(stage: Stage, topics: ReadonlyMap<string, TopicSpec>): void {
  for (const topic of [...stage.writes, TOPIC.poison]) {
    // Output records and position become durable in one transaction, so they must be in the same files.
    if (topicGroupOf(specOf(topics, topic)) !== 'stages') {
      throw new InvalidInput(`stage "${stage.name}" cannot emit to "${topic}"`);
    }
  }
}

export function specOf(topics: ReadonlyMap<string, TopicSpec>, topic: string): TopicSpec {
  const spec = topics.get(topic);
  if (!spec) throw new InvalidInput(`unknown topic "${topic}"`);
  return spec;
}
