import { DEFAULT_RETRY_STEPS, declareTopics, TOPIC } from '@tributary/core';
import { CATALOG_STAGES } from '@tributary/processors';
import { describe, expect, it } from 'vitest';
import { START, setUp } from './harness.ts';

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

  it('keeps retries waiting for the delay of their topic, also of the short one beside the schedule', () => {
    const { stages } = setUp();
    const reads = stages.find(({ name }) => name === 'deliver.retry')?.reads ?? [];
    const waits = reads.map(({ topic, dueAt }) => [topic, dueAt?.(START)]);
    expect(waits.slice(0, 3)).toEqual([
      ['deliveries.retry.1s', START + 1_000],
      ['deliveries.retry.10s', START + 10_000],
      ['deliveries.retry.1m', START + 60_000],
    ]);
  });

  it('refuses a ladder that does not climb', () => {
    expect(() => setUp({ retrySteps: ['1m', '10s'] })).toThrow('longer');
  });
});
