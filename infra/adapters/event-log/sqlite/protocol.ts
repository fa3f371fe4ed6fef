import type { Cursor } from '../stage-runner/cursor.ts';

/** Records of one partition, to be written in order. */
export interface RecordsWrite {
  readonly topic: string;
  readonly partition: number;
  /** One a record; empty when all are ''. */
  readonly keys: readonly string[];
  /** One a record, as JSON. */
  readonly headers: readonly string[];
  /** Entries in each record. */
  readonly counts: readonly number[];
  /** One an entry, record after record. */
  readonly values: readonly string[];
}

/** A stage's move from one position of a partition to the next, with what it emits. */
export interface CommitWrite {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly generation: number;
  readonly from: Cursor;
  readonly to: Cursor;
  readonly emissions: readonly RecordsWrite[];
}

/** Makes the caller the newest owner of a partition. A stage that was never here begins at `start`. */
export interface ClaimWrite {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly start: number;
}

/** What becomes durable in one transaction. */
export interface GroupWrite {
  readonly appends: readonly RecordsWrite[];
  readonly commits: readonly CommitWrite[];
  readonly claims: readonly ClaimWrite[];
}

/** The offset of the first record of each write, or `fenced`: nothing of that commit was done. */
export type CommitAnswer = readonly number[] | 'fenced';

export interface ClaimAnswer {
  readonly generation: number;
  readonly committed: Cursor;
}

/** In the order of the write's parts. */
export interface GroupAnswer {
  /** The offset of the first record of each. */
  readonly appends: readonly number[];
  readonly commits: readonly CommitAnswer[];
  readonly claims: readonly ClaimAnswer[];
}

export interface WorkerOptions {
  readonly folder: string;
  readonly segmentBytes: number;
  readonly segmentAgeMs: number;
  readonly busyTimeoutMs: number;
}

export interface WriteRequest {
  readonly kind: 'write';
  readonly id: number;
  readonly group: GroupWrite;
}

export type WorkerRequest = WriteRequest | { readonly kind: 'close' };

export type WorkerReply =
  | { readonly kind: 'written'; readonly id: number; readonly answer: GroupAnswer }
  /** The group is not known to be durable. */
  | { readonly kind: 'failed'; readonly id: number; readonly error: string }
  /** Something that failed no write and that an operator should know. */
  | { readonly kind: 'trouble'; readonly error: string };
