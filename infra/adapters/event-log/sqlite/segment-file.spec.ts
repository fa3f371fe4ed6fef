import { declareTopics } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { layoutFaults } from './segment-file.ts';

const topics = (partitions: number, retrySteps: readonly string[], dedicated: readonly string[] = []) =>
  declareTopics({ partitions, retentionMs: 1, retrySteps, dedicated });

/** The heads of freshly made topics, with some records in those named. */
function heads(
  partitions: number,
  labels: readonly string[],
  records: Readonly<Record<string, number>> = {},
) {
  return new Map(
    [...topics(partitions, labels).values()].flatMap(({ name, partitions: count }) =>
      Array.from({ length: count }, (_, partition): [string, { next: number }] => [
        `${name}/${partition}`,
        { next: records[`${name}/${partition}`] ?? 0 },
      ]),
    ),
  );
}

describe('the layout of the embedded log', () => {
  it('accepts the topics that it was created with, and added ones', () => {
    expect(layoutFaults(heads(4, ['10s']), [], topics(4, ['10s']))).toEqual([]);
    expect(layoutFaults(heads(4, ['10s']), [], topics(4, ['10s', '1m'], ['vip']))).toEqual([]);
  });

  it('reports a changed number of partitions, which lost the events of those left out', () => {
    expect(layoutFaults(heads(4, []), [], topics(2, []))).toContain(
      'topic events.production has 4 partitions, not 2',
    );
    expect(layoutFaults(heads(2, []), [], topics(4, []))).toContain(
      'topic deliveries has 2 partitions, not 4',
    );
  });

  it('reports a retry step that was removed while deliveries waited in it, which were never tried again', () => {
    const stored = heads(1, ['10s', '1m'], { 'deliveries.retry.1m/0': 13 });
    const position = (offset: number) => [{ topic: 'deliveries.retry.1m', partition: 0, offset }];
    const fault = 'topic deliveries.retry.1m is no longer declared and holds 13 unread records';
    expect(layoutFaults(stored, [], topics(1, ['10s']))).toEqual([fault]);
    expect(layoutFaults(stored, position(10), topics(1, ['10s']))).toEqual([fault.replace('13', '3')]);
    expect(layoutFaults(stored, position(13), topics(1, ['10s']))).toEqual([]);
  });
});
