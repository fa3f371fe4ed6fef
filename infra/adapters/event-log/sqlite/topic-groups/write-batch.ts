import {
  type Headers,
  InvalidInput,
  type NewEntry,
  type OutputRecord,
  type Position,
  type TopicSpec,
} from '@tributary/core';
import { type PackedEntry, type PartitionRecords, RecordPacker } from '../../record-packer.ts';
import type { Cursor } from '../../stage-runner/work.ts';

/** Records of one partition, to be written in order. */
export interface RecordsWrite {
  readonly topic: string;
  readonly partition: number;
  /** One per record; empty when all are ''. */
  readonly keys: readonly string[];
  /** One per record, as JSON. */
  readonly headers: readonly string[];
  /** Entries in each record. */
  readonly counts: readonly number[];
  /** One per entry, record after record. */
  readonly values: readonly string[];
}

/** Moves a stage's position in a partition, and writes the records that it emits. */
export interface CommitWrite {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly generation: number;
  readonly from: Cursor;
  readonly to: Cursor;
  readonly outputRecords: readonly RecordsWrite[];
}

/** Makes the caller the newest owner of a partition. A stage without a stored position begins at `start`. */
export interface OwnershipClaim {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly start: number;
}

/** The writes that become durable in one transaction. */
export interface WriteBatch {
  readonly appends: readonly RecordsWrite[];
  readonly commits: readonly CommitWrite[];
  readonly ownershipClaims: readonly OwnershipClaim[];
}

/** The offset of the first record of each output record, or `fenced`: nothing of that commit was written. */
export type CommitResult = readonly number[] | 'fenced';

export interface Ownership {
  readonly generation: number;
  readonly committed: Cursor;
}

/** One result for each write of a batch, in the same order. */
export interface WriteBatchResult {
  /** The offset of the first record of each. */
  readonly appends: readonly number[];
  readonly commits: readonly CommitResult[];
  readonly ownerships: readonly Ownership[];
}

export interface StageCommit extends Omit<CommitWrite, 'outputRecords'> {
  readonly outputRecords: readonly OutputRecord[];
}

/** A request to a topic group's writer. `settleBatch` sets its result. */
export type WriterRequest = AppendRequest | CommitRequest | OwnershipRequest;

export interface AppendRequest {
  readonly kind: 'append';
  readonly spec: TopicSpec;
  readonly entries: readonly NewEntry[];
  positions: readonly Position[];
}

export interface CommitRequest {
  readonly kind: 'commit';
  readonly commit: StageCommit;
  fenced: boolean;
}

export interface OwnershipRequest {
  readonly kind: 'ownership';
  readonly claims: readonly OwnershipClaim[];
  owned: readonly Ownership[];
}

/** A batch for the writer thread, with the requests that it answers. */
export interface BatchPlan {
  readonly batch: WriteBatch;
  readonly appended: readonly PartitionRecords[];
  readonly appends: readonly { readonly request: AppendRequest; readonly packed: readonly PackedEntry[] }[];
  readonly commits: readonly CommitRequest[];
  readonly ownershipRequests: readonly OwnershipRequest[];
}

export function planBatch(
  requests: readonly WriterRequest[],
  topics: ReadonlyMap<string, TopicSpec>,
): BatchPlan {
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
export function settleBatch(
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
