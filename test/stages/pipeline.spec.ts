import { DEFAULT_RETRY_STEPS, declareTopics, TOPIC } from '@tributary/core';
import { CATALOG_STAGES, STAGE_NAMES } from '@tributary/processors';
import { describe, expect, it } from 'vitest';
import { START, setUp } from './harness.ts';

const TOPICS = declareTopics({
  partitions: 1,
  retentionMs: 1,
  retrySteps: DEFAULT_RETRY_STEPS,
  dedicated: [],
});

describe('the pipeline', () => {
  it('is the stages by name, which read and write declared topics alone', () => {
    const { stages } = setUp();
    expect(stages.map(({ name }) => name)).toEqual(STAGE_NAMES);
    expect(CATALOG_STAGES).toEqual(['audit', 'replay', 'notice']);
    const used = stages.flatMap(({ reads, writes }) => [...reads.map(({ topic }) => topic), ...writes]);
    expect(used.filter((topic) => !TOPICS.has(topic))).toEqual([]);
  });

  it('leaves no topic unread that a stage writes, but the poison', () => {
    const { stages } = setUp();
    const reads = stages.flatMap((stage) => stage.reads.map(({ topic }) => topic));
    const read = new Set<string>([...reads, TOPIC.poison]);
    expect(stages.flatMap(({ writes }) => writes).filter((topic) => !read.has(topic))).toEqual([]);
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
