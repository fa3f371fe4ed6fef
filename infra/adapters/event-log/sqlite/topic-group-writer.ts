import { Worker } from 'node:worker_threads';
import {
  Fenced,
  type Headers,
  InvalidInput,
  type Logger,
  type NewEntry,
  type OutputRecord,
  type Position,
  type TopicSpec,
  Unavailable,
} from '@tributary/core';
import { GroupCommit } from '../../group-commit/group-commit.ts';
import { type PackedEntry, type PartitionRecords, RecordPacker } from '../entries.ts';
import { outputBytes } from '../stage-runner/work.ts';
import type { WorkerOptions, WorkerReply, WorkerRequest } from './append-worker.ts';
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

interface PendingBatch {
  readonly resolve: (result: WriteBatchResult) => void;
  readonly reject: (reason: Unavailable) => void;
}

/**
 * Writes to one topic group from this process. Concurrent requests share one transaction and one fsync in the group's
 * worker thread, which starts with the first write and is restarted after it died.
 */
export class TopicGroupWriter {
  readonly #options: TopicGroupWriterOptions;
  readonly #requests: GroupCommit<WriterRequest>;
  readonly #pending = new Map<number, PendingBatch>();
  #worker: Worker | undefined;
  #lastId = 0;

  constructor(options: TopicGroupWriterOptions) {
    this.#options = options;
    this.#requests = new GroupCommit({
      maxInFlight: MAX_IN_FLIGHT,
      eagerRequests: EAGER_REQUESTS,
      maxUnconfirmedBytes: options.maxUnconfirmedBytes,
      maxGroupBytes: MAX_BATCH_BYTES,
      commit: (requests) => this.#commitBatch(requests),
    });
  }

  /** The entries are already validated; `bytes` is their total size. Rejects with `Overloaded` or `Unavailable`. */
  async append(spec: TopicSpec, entries: readonly NewEntry[], bytes: number): Promise<readonly Position[]> {
    const request: AppendRequest = { kind: 'append', spec, entries, positions: [] };
    await this.#requests.add(request, bytes);
    return request.positions;
  }

  /** Rejects with `Fenced` when a newer owner has the partition, and nothing was written; else as `append`. */
  async commit(commit: StageCommit): Promise<void> {
    const request: CommitRequest = { kind: 'commit', commit, fenced: false };
    await this.#requests.add(request, COMMIT_BYTES + outputBytes(commit.outputRecords));
    if (request.fenced)
      throw new Fenced(`${commit.topic}/${commit.partition} of ${commit.stage} is owned by another`);
  }

  /** Makes this process the newest owner of the partitions. The results are in their order. */
  async claimOwnership(ownershipClaims: readonly OwnershipClaim[]): Promise<readonly Ownership[]> {
    const request: OwnershipRequest = { kind: 'ownership', claims: ownershipClaims, owned: [] };
    await this.#requests.add(request, COMMIT_BYTES * ownershipClaims.length);
    return request.owned;
  }

  /** Waits for requests under way, then ends the thread. */
  async close(): Promise<void> {
    await this.#requests.drained();
    const worker = this.#worker;
    if (!worker) return;
    const exited = new Promise((resolve) => worker.once('exit', resolve));
    worker.postMessage({ kind: 'close' } satisfies WorkerRequest);
    await exited;
  }

  async #commitBatch(requests: readonly WriterRequest[]): Promise<void> {
    const plan = planBatch(requests, this.#options.topics);
    const result = await this.#write(plan.batch);
    settleBatch(plan, result, this.#options.onDurable);
  }

  #write(batch: WriteBatch): Promise<WriteBatchResult> {
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId;
      this.#pending.set(id, { resolve, reject });
      this.#worker ??= this.#start();
      this.#worker.postMessage({ kind: 'write', id, batch } satisfies WorkerRequest);
    });
  }

  #start(): Worker {
    const { folder, segmentBytes, segmentAgeMs, busyTimeoutMs, logger } = this.#options;
    const workerData: WorkerOptions = { folder, segmentBytes, segmentAgeMs, busyTimeoutMs };
    const worker = new Worker(new URL('./append-worker.ts', import.meta.url), {
      workerData,
      execArgv: ['--report-exclude-env'],
    });
    worker.on('message', (reply: WorkerReply) => this.#onReply(reply));
    worker.on('error', (error) =>
      logger.error({ folder, error: error.message }, 'the thread that writes the event log failed'),
    );
    worker.on('exit', () => {
      if (this.#worker === worker) this.#worker = undefined;
      for (const pending of this.#pending.values()) pending.reject(new Unavailable('append thread ended'));
      this.#pending.clear();
    });
    return worker;
  }

  #onReply(reply: WorkerReply): void {
    if (reply.kind === 'roll failed') {
      const { folder, logger } = this.#options;
      logger.error(
        { folder, error: reply.error },
        'a new segment of the event log could not be begun; a later write tries again',
      );
      return;
    }
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if (reply.kind === 'written') pending?.resolve(reply.result);
    else pending?.reject(new Unavailable(reply.error));
  }
}

interface StageCommit extends Omit<CommitWrite, 'outputRecords'> {
  readonly outputRecords: readonly OutputRecord[];
}

/** A request to a topic group's writer. `settleBatch` sets its result. */
type WriterRequest = AppendRequest | CommitRequest | OwnershipRequest;

interface AppendRequest {
  readonly kind: 'append';
  readonly spec: TopicSpec;
  readonly entries: readonly NewEntry[];
  positions: readonly Position[];
}

interface CommitRequest {
  readonly kind: 'commit';
  readonly commit: StageCommit;
  fenced: boolean;
}

interface OwnershipRequest {
  readonly kind: 'ownership';
  readonly claims: readonly OwnershipClaim[];
  owned: readonly Ownership[];
}

/** A batch for the writer thread, with the requests that it answers. */
interface BatchPlan {
  readonly batch: WriteBatch;
  readonly appended: readonly PartitionRecords[];
  readonly appends: readonly { readonly request: AppendRequest; readonly packed: readonly PackedEntry[] }[];
  readonly commits: readonly CommitRequest[];
  readonly ownershipRequests: readonly OwnershipRequest[];
}

function planBatch(requests: readonly WriterRequest[], topics: ReadonlyMap<string, TopicSpec>): BatchPlan {
  const packer = new RecordPacker();
  const appends: { request: AppendRequest; packed: readonly PackedEntry[] }[] = [];
  const commits: CommitRequest[] = [];
  const ownershipRequests: OwnershipRequest[] = [];
  for (const request of requests) {
    if (request.kind === 'commit') commits.push(request);
    else if (request.kind === 'ownership') ownershipRequests.push(request);
    else appends.push({ request, packed: request.entries.map((entry) => packer.pack(request.spec, entry)) });
  }
  const appended = packer.partitions();
  const batch = {
    appends: appended.map(encode),
    commits: commits.map(({ commit }) => ({
      ...commit,
      outputRecords: encodeOutputRecords(commit.outputRecords, topics),
    })),
    ownershipClaims: ownershipRequests.flatMap((request) => request.claims),
  };
  return { batch, appended, appends, commits, ownershipRequests };
}

/** Sets the result of each request, and reports the offset up to which each partition became durable. */
function settleBatch(
  plan: BatchPlan,
  result: WriteBatchResult,
  onDurable: (topic: string, partition: number, next: number) => void,
): void {
  const bases = new Map<PartitionRecords, number>();
  for (const [i, records] of plan.appended.entries()) {
    const base = result.appends[i] ?? 0;
    bases.set(records, base);
    onDurable(records.topic, records.partition, base + records.counts.length);
  }
  for (const { request, packed } of plan.appends)
    request.positions = packed.map((packed) => positionOf(packed, bases));
  for (const [i, request] of plan.commits.entries()) {
    const offsets = result.commits[i] ?? 'fenced';
    request.fenced = offsets === 'fenced';
    const emitted = plan.batch.commits[i]?.outputRecords ?? [];
    for (const [j, { topic, partition, counts }] of emitted.entries()) {
      const base = offsets === 'fenced' ? undefined : offsets[j];
      if (base !== undefined) onDurable(topic, partition, base + counts.length);
    }
  }
  let first = 0;
  for (const request of plan.ownershipRequests) {
    request.owned = result.ownerships.slice(first, first + request.claims.length);
    first += request.claims.length;
  }
}

function encodeOutputRecords(
  outputRecords: readonly OutputRecord[],
  topics: ReadonlyMap<string, TopicSpec>,
): RecordsWrite[] {
  const packer = new RecordPacker();
  for (const outputRecord of outputRecords) {
    const spec = topics.get(outputRecord.topic);
    if (!spec) throw new InvalidInput(`unknown topic "${outputRecord.topic}"`);
    packer.pack(spec, outputRecord);
  }
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
