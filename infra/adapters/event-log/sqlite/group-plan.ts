import {
  type Headers,
  InvalidInput,
  type NewEntry,
  type OutputRecord,
  type Position,
  type TopicSpec,
} from '@tributary/core';
import { type PartitionRecords, type Placed, RecordPacker } from '../append/record-packer.ts';
import type { Cursor } from '../stage-runner/cursor.ts';
import type { ClaimAnswer, ClaimWrite, GroupAnswer, GroupWrite, RecordsWrite } from './protocol.ts';

export interface StageCommit {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly generation: number;
  readonly from: Cursor;
  readonly to: Cursor;
  readonly emissions: readonly OutputRecord[];
}

/** What is asked of a family's writer, with room for its answer. */
export type Request = AppendRequest | CommitRequest | ClaimRequest;

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

export interface ClaimRequest {
  readonly kind: 'claim';
  readonly claims: readonly ClaimWrite[];
  answers: readonly ClaimAnswer[];
}

/** One group: what goes to the thread, and who waits for which part of the answer. */
export interface GroupPlan {
  readonly write: GroupWrite;
  readonly appended: readonly PartitionRecords[];
  readonly appends: readonly { readonly request: AppendRequest; readonly placed: readonly Placed[] }[];
  readonly commits: readonly CommitRequest[];
  readonly claims: readonly ClaimRequest[];
}

export function planGroup(requests: readonly Request[], topics: ReadonlyMap<string, TopicSpec>): GroupPlan {
  const packer = new RecordPacker();
  const appends: { request: AppendRequest; placed: readonly Placed[] }[] = [];
  const commits: CommitRequest[] = [];
  const claims: ClaimRequest[] = [];
  for (const request of requests) {
    if (request.kind === 'commit') commits.push(request);
    else if (request.kind === 'claim') claims.push(request);
    else appends.push({ request, placed: request.entries.map((entry) => packer.place(request.spec, entry)) });
  }
  const appended = packer.partitions();
  const write = {
    appends: appended.map(encode),
    commits: commits.map(({ commit }) => ({
      ...commit,
      emissions: encodeEmissions(commit.emissions, topics),
    })),
    claims: claims.flatMap((request) => request.claims),
  };
  return { write, appended, appends, commits, claims };
}

/** Hands out the answer, and says up to which offset each partition became durable. */
export function settleGroup(
  plan: GroupPlan,
  answer: GroupAnswer,
  onDurable: (topic: string, partition: number, next: number) => void,
): void {
  const bases = new Map<PartitionRecords, number>();
  for (const [i, records] of plan.appended.entries()) {
    const base = answer.appends[i] ?? 0;
    bases.set(records, base);
    onDurable(records.topic, records.partition, base + records.counts.length);
  }
  for (const { request, placed } of plan.appends) request.positions = placed.map((place) => at(place, bases));
  for (const [i, request] of plan.commits.entries()) {
    const offsets = answer.commits[i] ?? 'fenced';
    request.fenced = offsets === 'fenced';
    const emitted = plan.write.commits[i]?.emissions ?? [];
    for (const [j, { topic, partition, counts }] of emitted.entries()) {
      const base = offsets === 'fenced' ? undefined : offsets[j];
      if (base !== undefined) onDurable(topic, partition, base + counts.length);
    }
  }
  let claim = 0;
  for (const request of plan.claims) {
    request.answers = answer.claims.slice(claim, claim + request.claims.length);
    claim += request.claims.length;
  }
}

function encodeEmissions(
  emissions: readonly OutputRecord[],
  topics: ReadonlyMap<string, TopicSpec>,
): RecordsWrite[] {
  const packer = new RecordPacker();
  for (const emission of emissions) {
    const spec = topics.get(emission.topic);
    if (!spec) throw new InvalidInput(`unknown topic "${emission.topic}"`);
    packer.place(spec, emission);
  }
  return packer.partitions().map(encode);
}

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

function at({ records, record, index }: Placed, bases: ReadonlyMap<PartitionRecords, number>): Position {
  const { topic, partition } = records;
  return { topic, partition, offset: (bases.get(records) ?? 0) + record, index };
}
