import type { TopicSpec } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { isExpired } from './retention.ts';

const TOPICS = new Map<string, TopicSpec>(
  [
    { name: 'short', partitions: 1, packed: false, retentionMs: 100 },
    { name: 'long', partitions: 1, packed: false, retentionMs: 1_000 },
  ].map((spec) => [spec.name, spec]),
);

function segment(heads: Record<string, [number, number]>) {
  const entries = Object.entries(heads).map(
    ([name, [first, next]]) => [`${name}/0`, { first, next }] as const,
  );
  return { sealedAt: 10_000, heads: new Map(entries) };
}

describe('retention', () => {
  it('keeps a segment for the longest retention of the topics with records in it', () => {
    const both = segment({ short: [0, 5], long: [0, 5] });
    const one = segment({ short: [0, 5], long: [5, 5] });
    expect(isExpired(both, TOPICS, 10_500)).toBe(false);
    expect(isExpired(both, TOPICS, 11_000)).toBe(true);
    expect(isExpired(one, TOPICS, 10_500)).toBe(true);
    expect(isExpired(one, TOPICS, 10_099)).toBe(false);
  });

  it('keeps no segment for topics that are no longer declared', () => {
    expect(isExpired(segment({ gone: [0, 5] }), TOPICS, 10_001)).toBe(true);
  });
});
