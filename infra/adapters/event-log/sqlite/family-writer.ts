import { Worker } from 'node:worker_threads';
import {
  Fenced,
  type Logger,
  type NewEntry,
  type Position,
  type TopicSpec,
  Unavailable,
} from '@tributary/core';
import { GroupCommit } from '../../group-commit/group-commit.ts';
import { emissionBytes } from '../stage-runner/work.ts';
import {
  type AppendRequest,
  type ClaimRequest,
  type CommitRequest,
  planGroup,
  type Request,
  type StageCommit,
  settleGroup,
} from './group-plan.ts';
import type {
  ClaimAnswer,
  ClaimWrite,
  GroupAnswer,
  GroupWrite,
  WorkerOptions,
  WorkerReply,
  WorkerRequest,
} from './protocol.ts';

/** Bytes one commit costs beside its emissions. */
const COMMIT_BYTES = 128;

/** Bytes of one group: the commits of others that come meanwhile wait until it is durable. */
const MAX_GROUP_BYTES = 2 * 1024 * 1024;

/** The thread takes all groups that wait for it into one transaction, so a few may be on their way to it. */
const MAX_IN_FLIGHT = 4;
const EAGER_REQUESTS = 8;

export interface FamilyWriterOptions extends WorkerOptions {
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly maxUnconfirmedBytes: number;
  /** Told when records of a partition became durable up to `next`. */
  readonly onDurable: (topic: string, partition: number, next: number) => void;
  readonly logger: Logger;
}

interface Pending {
  readonly resolve: (answer: GroupAnswer) => void;
  readonly reject: (reason: Unavailable) => void;
}

/**
 * Writes one family from this process: whatever is asked for at the same time shares one transaction and one fsync in
 * the family's worker thread, which starts with the first write and is started anew should it die.
 */
export class FamilyWriter {
  readonly #options: FamilyWriterOptions;
  readonly #groups: GroupCommit<Request>;
  readonly #pending = new Map<number, Pending>();
  #worker: Worker | undefined;
  #lastId = 0;

  constructor(options: FamilyWriterOptions) {
    this.#options = options;
    this.#groups = new GroupCommit({
      maxInFlight: MAX_IN_FLIGHT,
      eagerRequests: EAGER_REQUESTS,
      maxUnconfirmedBytes: options.maxUnconfirmedBytes,
      maxGroupBytes: MAX_GROUP_BYTES,
      commit: (group) => this.#commitGroup(group),
    });
  }

  /** The entries are checked; `bytes` is what they weigh. Rejects with `Overloaded` or `Unavailable`. */
  async append(spec: TopicSpec, entries: readonly NewEntry[], bytes: number): Promise<readonly Position[]> {
    const request: AppendRequest = { kind: 'append', spec, entries, positions: [] };
    await this.#groups.add(request, bytes);
    return request.positions;
  }

  /** Rejects with `Fenced`: nothing was done and someone newer owns the partition; else as `append`. */
  async commit(commit: StageCommit): Promise<void> {
    const request: CommitRequest = { kind: 'commit', commit, fenced: false };
    await this.#groups.add(request, COMMIT_BYTES + emissionBytes(commit.emissions));
    if (request.fenced)
      throw new Fenced(`${commit.topic}/${commit.partition} of ${commit.stage} is owned by another`);
  }

  /** Makes this process the newest owner of the partitions; answers in their order. */
  async claim(claims: readonly ClaimWrite[]): Promise<readonly ClaimAnswer[]> {
    const request: ClaimRequest = { kind: 'claim', claims, answers: [] };
    await this.#groups.add(request, COMMIT_BYTES * claims.length);
    return request.answers;
  }

  /** Waits for what is under way, then lets the thread go. */
  async close(): Promise<void> {
    await this.#groups.drained();
    const worker = this.#worker;
    if (!worker) return;
    const exited = new Promise((resolve) => worker.once('exit', resolve));
    this.#post(worker, { kind: 'close' });
    await exited;
  }

  async #commitGroup(requests: readonly Request[]): Promise<void> {
    const plan = planGroup(requests, this.#options.topics);
    const answer = await this.#write(plan.write);
    settleGroup(plan, answer, this.#options.onDurable);
  }

  #write(group: GroupWrite): Promise<GroupAnswer> {
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId;
      this.#pending.set(id, { resolve, reject });
      this.#worker ??= this.#start();
      this.#post(this.#worker, { kind: 'write', id, group });
    });
  }

  #post(worker: Worker, message: WorkerRequest): void {
    worker.postMessage(message);
  }

  #start(): Worker {
    const { folder, segmentBytes, segmentAgeMs, busyTimeoutMs, logger } = this.#options;
    const workerData: WorkerOptions = { folder, segmentBytes, segmentAgeMs, busyTimeoutMs };
    const worker = new Worker(new URL('./append-worker.ts', import.meta.url), {
      workerData,
      execArgv: ['--report-exclude-env'],
    });
    worker.on('message', (reply: WorkerReply) => this.#onReply(reply));
    worker.on('error', (error) => logger.error({ folder, error: error.message }, 'append thread died'));
    worker.on('exit', () => {
      if (this.#worker === worker) this.#worker = undefined;
      for (const pending of this.#pending.values()) pending.reject(new Unavailable('append thread ended'));
      this.#pending.clear();
    });
    return worker;
  }

  #onReply(reply: WorkerReply): void {
    if (reply.kind === 'trouble') {
      this.#options.logger.error({ folder: this.#options.folder, error: reply.error }, 'event log');
      return;
    }
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if (reply.kind === 'written') pending?.resolve(reply.answer);
    else pending?.reject(new Unavailable(reply.error));
  }
}
