import {
  Fenced,
  type Headers,
  type Logger,
  type NewEntry,
  type OutputRecord,
  type Position,
  type TopicSpec,
} from '@tributary/core';
import { GroupCommit } from '../../group-commit/group-commit.ts';
import { StoreThread } from '../../sqlite/store-thread.ts';
import { type PackedEntry, type PartitionRecords, RecordPacker, specOf } from '../entries.ts';
import { outputBytes } from '../stage-runner/work.ts';
import type { WorkerOptions } from './append-worker.ts';
import type {
  CommitWrite,
  Ownership,
  OwnershipClaim,
  RecordsWrite,
  WriteBatch,
  WriteBatchResult,
} from './segment-writer.ts';

/** Bytes that a commit counts for in addition to its output records. */
const COMMIT_BYTES = 128;

/** Limits the size of a batch: requests that arrive later are delayed until it is durable. */
const MAX_BATCH_BYTES = 2 * 1024 * 1024;

/** The worker takes all queued batches into one transaction, so several may be under way. */
const MAX_IN_FLIGHT = 4;
const EAGER_REQUESTS = 8;

interface TopicGroupWriterOptions extends WorkerOptions {
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly maxUnconfirmedBytes: number;
  /** Called when the records of a partition below `next` are durable. */
  readonly onDurable: (topic: string, partition: number, next: number) => void;
  readonly logger: Logger;
}

/**
 * Writes to one topic group from this process. Concurrent requests share one transaction and one fsync in the group's
 * worker thread, which starts with the first write and is restarted after it died.
 */
export class TopicGroupWriter {
  readonly #options: TopicGroupWriterOptions;
  readonly #requests: GroupCommit<WriterRequest, WriterResult>;
  readonly #thread: StoreThread<WriteBatch, WriteBatchResult>;

  constructor(options: TopicGroupWriterOptions) {
    this.#options = options;
    this.#requests = new GroupCommit({
      maxInFlight: MAX_IN_FLIGHT,
      eagerRequests: EAGER_REQUESTS,
      maxUnconfirmedBytes: options.maxUnconfirmedBytes,
      maxGroupBytes: MAX_BATCH_BYTES,
      commit: (requests) => this.#commitBatch(requests),
    });
    const { folder, segmentBytes, segmentAgeMs, busyTimeoutMs, logger } = options;
    this.#thread = new StoreThread({
      program: new URL('./append-worker.ts', import.meta.url),
      workerData: { folder, segmentBytes, segmentAgeMs, busyTimeoutMs } satisfies WorkerOptions,
      onDied: (error) =>
        logger.error({ folder, error: error.message }, 'the thread that writes the event log failed'),
      onNoted: (error) =>
        logger.error(
          { folder, error },
          'a new segment of the event log could not be begun; a later write tries again',
        ),
    });
  }

  /** The entries are already validated; `bytes` is their total size. Rejects with `Overloaded` or `Unavailable`. */
  async append(spec: TopicSpec, entries: readonly NewEntry[], bytes: number): Promise<readonly Position[]> {
    return (await this.#requests.add({ kind: 'append', spec, entries }, bytes)) as readonly Position[];
  }

  /** Rejects with `Fenced` when a newer owner has the partition, and nothing was written; else as `append`. */
  async commit(commit: StageCommit): Promise<void> {
    await this.#requests.add({ kind: 'commit', commit }, COMMIT_BYTES + outputBytes(commit.outputRecords));
  }

  /** Makes this process the newest owner of the partitions. The results are in their order. */
  async claimOwnership(claims: readonly OwnershipClaim[]): Promise<readonly Ownership[]> {
    const bytes = COMMIT_BYTES * claims.length;
    return (await this.#requests.add({ kind: 'ownership', claims }, bytes)) as readonly Ownership[];
  }

  /** Waits for requests under way, then ends the thread. */
  async close(): Promise<void> {
    await this.#requests.drained();
    await this.#thread.close();
  }

  async #commitBatch(requests: readonly WriterRequest[]): Promise<readonly (WriterResult | Error)[]> {
    const { topics, onDurable } = this.#options;
    const appends = requests.filter((request) => request.kind === 'append');
    const commits = requests.filter((request) => request.kind === 'commit');
    const claims = requests.filter((request) => request.kind === 'ownership');
    const packer = new RecordPacker();
    const packed = appends.map(({ spec, entries }) => entries.map((entry) => packer.pack(spec, entry)));
    const appended = packer.partitions();
    const batch = {
      appends: appended.map(encode),
      commits: commits.map(({ commit }) => ({
        ...commit,
        outputRecords: encodeOutputRecords(commit.outputRecords, topics),
      })),
      ownershipClaims: claims.flatMap((request) => request.claims),
    };
    const written = await this.#thread.ask(batch);
    const durable = ({ topic, partition, counts }: RecordsWrite, base: number) =>
      onDurable(topic, partition, base + counts.length);
    const results = new Map<WriterRequest, WriterResult | Error>();
    const bases = new Map(appended.map((records, i) => [records, written.appends[i] ?? 0]));
    for (const [i, records] of batch.appends.entries()) durable(records, written.appends[i] ?? 0);
    for (const [i, request] of appends.entries())
      results.set(
        request,
        (packed[i] ?? []).map((entry) => positionOf(entry, bases)),
      );
    for (const [i, request] of commits.entries()) {
      const { stage, topic, partition } = request.commit;
      const offsets = written.commits[i] ?? 'fenced';
      if (offsets === 'fenced')
        results.set(request, new Fenced(`${topic}/${partition} of ${stage} is owned by another`));
      // A commit that is repeated has no offsets.
      for (const [j, records] of (batch.commits[i]?.outputRecords ?? []).entries()) {
        const base = offsets === 'fenced' ? undefined : offsets[j];
        if (base !== undefined) durable(records, base);
      }
    }
    let first = 0;
    for (const request of claims) {
      const end = first + request.claims.length;
      results.set(request, written.ownerships.slice(first, end));
      first = end;
    }
    return requests.map((request) => results.get(request));
  }
}

interface StageCommit extends Omit<CommitWrite, 'outputRecords'> {
  readonly outputRecords: readonly OutputRecord[];
}

/** A request to a topic group's writer. */
type WriterRequest =
  | { readonly kind: 'append'; readonly spec: TopicSpec; readonly entries: readonly NewEntry[] }
  | { readonly kind: 'commit'; readonly commit: StageCommit }
  | { readonly kind: 'ownership'; readonly claims: readonly OwnershipClaim[] };

/** Of an append, of a claim of ownership, and of a commit. */
type WriterResult = readonly Position[] | readonly Ownership[] | undefined;

function encodeOutputRecords(
  outputRecords: readonly OutputRecord[],
  topics: ReadonlyMap<string, TopicSpec>,
): readonly RecordsWrite[] {
  const packer = new RecordPacker();
  for (const outputRecord of outputRecords) packer.pack(specOf(topics, outputRecord.topic), outputRecord);
  return packer.partitions().map(encode);
}

/** Headers that are the same object as the ones before are serialized once. */
function encode({ topic, partition, keys, headers, counts, values }: PartitionRecords): RecordsWrite {
  let last: Headers | undefined;
  let text = '{}';
  const texts = headers.map((one) => {
    if (one !== last) text = JSON.stringify(one);
    last = one;
    return text;
  });
  return {
    topic,
    partition,
    keys: keys.some((key) => key !== '') ? keys : [],
    headers: texts,
    counts,
    values,
  };
}

function positionOf(
  { records, record, index }: PackedEntry,
  bases: ReadonlyMap<PartitionRecords, number>,
): Position {
  const { topic, partition } = records;
  return { topic, partition, offset: (bases.get(records) ?? 0) + record, index };
}
