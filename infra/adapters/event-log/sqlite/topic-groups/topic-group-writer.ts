import { Worker } from 'node:worker_threads';
import {
  Fenced,
  type Logger,
  type NewEntry,
  type Position,
  type TopicSpec,
  Unavailable,
} from '@tributary/core';
import { GroupCommit } from '../../../group-commit/group-commit.ts';
import { outputBytes } from '../../stage-runner/work.ts';
import type { WorkerOptions, WorkerReply, WorkerRequest } from './append-worker.ts';
import {
  type AppendRequest,
  type CommitRequest,
  type Ownership,
  type OwnershipClaim,
  type OwnershipRequest,
  planBatch,
  type StageCommit,
  settleBatch,
  type WriteBatch,
  type WriteBatchResult,
  type WriterRequest,
} from './write-batch.ts';

/** Bytes that a commit counts for in addition to its output records. */
const COMMIT_BYTES = 128;

/** Limits the size of a batch: requests that arrive later are delayed until it is durable. */
const MAX_BATCH_BYTES = 2 * 1024 * 1024;

/** The worker takes all queued batches into one transaction, so several may be under way. */
const MAX_IN_FLIGHT = 4;
const EAGER_REQUESTS = 8;

export interface TopicGroupWriterOptions extends WorkerOptions {
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
