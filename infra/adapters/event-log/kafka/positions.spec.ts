import { declareTopics, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import type { KafkaClient } from './client/client.ts';
import { Ends } from './client/ends.fixture.ts';
import {
  type Evidence,
  findStart,
  type RecordedFacts,
  RecordedPositions,
  recordedStart,
  type StartSources,
  storedStart,
  type Traces,
  tracedStart,
} from './positions.ts';

const NOTHING_RECORDED: RecordedFacts = {
  recorded: undefined,
  firstAt: 1_000,
  topicBegun: false,
  sinceBeginning: false,
  startsAtFirst: false,
  added: false,
};
const NO_TRACES: Traces = { siblings: false, stageRecorded: false, emitted: false };
const KEPT = { stored: undefined, first: 0, end: 90 };
const at = (offset: number) => ({ offset, index: 0 });
const byRecords = (facts: Partial<RecordedFacts>, kept: Partial<Evidence> = {}) =>
  recordedStart({ ...KEPT, ...kept }, { ...NOTHING_RECORDED, ...facts });
const byTraces = (traces: Partial<Traces>, kept: Partial<Evidence> = {}) =>
  tracedStart({ ...KEPT, ...kept }, { ...NO_TRACES, ...traces });

describe('the position at which a stage continues', () => {
  it('is the position of its group, unless the topic is another one by now', () => {
    expect(storedStart({ ...KEPT, stored: at(7) })).toEqual({ from: at(7), found: 'stored' });
    expect(storedStart({ ...KEPT, stored: at(91) })).toEqual({ from: at(0), found: 'anew' });
    expect(storedStart(KEPT)).toBeUndefined();
  });

  it('is the recorded position where the group has none, unless the topic is younger than the record', () => {
    const recorded = { offset: 40, index: 2, at: 5_000 };
    const lost = { from: { offset: 40, index: 2 }, found: 'lost' };
    expect(byRecords({ recorded })).toEqual(lost);
    const anew = { from: at(0), found: 'anew' };
    expect(byRecords({ recorded, firstAt: 5_001 })).toEqual(anew);
    expect(byRecords({ recorded }, { end: 39 })).toEqual(anew);
    // All records below are gone, so none can be repeated, however young the first record is.
    expect(byRecords({ recorded, firstAt: 9_000 }, { first: 40 })).toEqual(lost);
  });

  it.each<[string, Partial<RecordedFacts>, Partial<Evidence>]>([
    ['an empty topic', {}, { first: 90 }],
    ['a stage that begins at the first record anyhow', { startsAtFirst: true }, { first: 5 }],
    ['a topic that the stage began elsewhere', { topicBegun: true }, {}],
    ['an installation that records since its beginning', { sinceBeginning: true }, { first: 5 }],
    ['a partition that was added', { added: true }, { first: 5 }],
  ])('is the first record for %s', (_what, facts, kept) => {
    expect(byRecords(facts, kept)).toEqual({ from: at(kept.first ?? 0), found: 'fresh' });
  });

  it('is not in the records where the stage may have worked before there were any', () => {
    expect(byRecords({})).toBeUndefined();
    expect(byRecords({}, { first: 5 })).toBeUndefined();
  });

  it.each<[string, Partial<Traces>]>([
    ['a topic that was declared later', { stageRecorded: true, emitted: true }],
    ['a stage that never emitted anything', {}],
  ])('is the first record for %s', (_what, traces) => {
    expect(byTraces(traces)).toEqual({ from: at(0), found: 'fresh' });
  });

  it.each<[string, Partial<Traces>, Partial<Evidence>]>([
    ['positions in other partitions', { siblings: true, stageRecorded: true }, {}],
    ['a topic without its beginning', { stageRecorded: true }, { first: 5 }],
    ['emissions of before', { emitted: true }, {}],
  ])('is for an operator to say where there are %s', (_what, traces, kept) => {
    expect(byTraces(traces, kept)).toHaveProperty('unknown');
  });
});

/** Counts the partitions that it is asked about; no group has a position. */
class Counting extends Ends {
  asked = 0;

  override listOffsets(
    ...[of, request]: Parameters<KafkaClient['listOffsets']>
  ): ReturnType<KafkaClient['listOffsets']> {
    for (const { partitions } of request.topics) this.asked += partitions.length;
    return super.listOffsets(of, request);
  }

  override async fetchOffsets(
    _group: string,
    topics: Parameters<KafkaClient['fetchOffsets']>[1],
  ): ReturnType<KafkaClient['fetchOffsets']> {
    return topics.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map((partition) => {
        this.asked++;
        return { partition, offset: '-1', metadata: null };
      }),
    }));
  }
}

describe('the first start of many partitions', () => {
  async function findAll(sinceBeginning: boolean) {
    const client = new Counting();
    const partitions = 60;
    const sources: StartSources = {
      client,
      positions: {
        sinceBeginning,
        knowsAnything: false,
        of: () => undefined,
        hasBegun: () => false,
        knows: () => false,
        read: async () => {},
        recordBeginning: async () => {},
        recordBegun: async () => {},
      },
      stage: { name: 'count', writes: [TOPIC.violations] },
      topics: declareTopics({ partitions, retentionMs: 1, retrySteps: [], dedicated: [] }),
      nameOf: (topic) => topic,
    };
    const starts = await Promise.all(
      Array.from({ length: partitions }, (_, partition) =>
        findStart(sources, { stage: 'count', topic: TOPIC.accepted, partition }, KEPT),
      ),
    );
    return { starts, asked: client.asked };
  }

  it('took minutes, as each asked for all others: none asks where positions are recorded since the beginning', async () => {
    const { starts, asked } = await findAll(true);
    expect(starts.every((start) => 'found' in start && start.found === 'fresh')).toBe(true);
    expect(asked).toBe(0);
  });

  it('looks for traces in the others where nothing is recorded', async () => {
    const { starts, asked } = await findAll(false);
    expect(starts.every((start) => 'unknown' in start)).toBe(true);
    expect(asked).toBeGreaterThan(0);
  });
});

const SPEC = {
  name: 'stages.positions',
  partitions: 3,
  packed: false,
  retentionMs: 'forever',
  compacted: true,
} as const;

function countingReads() {
  const reads: number[] = [];
  const pending = new Set<() => void>();
  const positions = new RecordedPositions({
    spec: SPEC,
    name: SPEC.name,
    fetcher: { fetch: async () => undefined },
    range: (partition) =>
      new Promise((resolve) => {
        reads.push(partition);
        pending.add(() => resolve({ first: 0, end: 0 }));
      }),
    append: async () => [],
  });
  const answer = async () => {
    await Promise.resolve();
    await new Promise(setImmediate);
    for (const go of pending) go();
    pending.clear();
    await new Promise(setImmediate);
  };
  return { positions, reads, answer };
}

it('a process that took over many partitions read all positions once for each: they share a read', async () => {
  const { positions, reads, answer } = countingReads();
  const first = positions.read();
  await new Promise(setImmediate);
  const others = Array.from({ length: 40 }, () => positions.read());
  await answer();
  await first;
  expect(reads).toHaveLength(2 * SPEC.partitions);
  await answer();
  await Promise.all(others);
  expect(reads).toHaveLength(2 * SPEC.partitions);
});
