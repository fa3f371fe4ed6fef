import { DEFAULT_RETRY_STEPS, declareTopics, TOPIC } from '@tributary/core';
import { CATALOG_STAGES } from '@tributary/processors';
import { describe, expect, it } from 'vitest';
import { entryOf, START, setUp } from './harness.ts';

const TOPICS = declareTopics({
  partitions: 1,
  retentionMs: 1,
  retrySteps: DEFAULT_RETRY_STEPS,
  dedicated: [],
});

describe('the pipeline', () => {
  it('reads and writes declared topics alone, each group under a name of its own', () => {
    const { stages } = setUp();
    expect(new Set(stages.map(({ name }) => name)).size).toBe(stages.length);
    const used = stages.flatMap(({ reads, writes }) => [...reads.map(({ topic }) => topic), ...writes]);
    expect(used.filter((topic) => !TOPICS.has(topic))).toEqual([]);
  });

  it('leaves no topic unread that a stage writes, but the poison', () => {
    const { stages } = setUp();
    const reads = stages.flatMap((stage) => stage.reads.map(({ topic }) => topic));
    const read = new Set<string>([...reads, TOPIC.poison]);
    expect(stages.flatMap(({ writes }) => writes).filter((topic) => !read.has(topic))).toEqual([]);
  });

  it('reads the catalog by the stages that a rewrite of it waits for, and by no other', () => {
    const reads = setUp().stages.filter((stage) => stage.reads.some(({ topic }) => topic === TOPIC.catalog));
    expect(reads.map(({ name }) => name)).toEqual(CATALOG_STAGES);
  });

  it('keeps retries waiting for the delay of their topic, and not much longer', () => {
    const { stages } = setUp();
    const source = stages
      .find(({ name }) => name === 'deliver.retry')
      ?.reads.find(({ topic }) => topic === 'deliveries.retry.1m');
    const due = source?.dueAt?.(entryOf('deliveries.retry.1m', 0, {}, { 'message-id': 'm' })) ?? 0;
    expect(due - START).toBeGreaterThanOrEqual(60_000);
    expect(due - START).toBeLessThanOrEqual(72_000);
  });

  it('refuses a ladder that does not climb', () => {
    expect(() => setUp({ retrySteps: ['1m', '10s'] })).toThrow('longer');
  });
});
