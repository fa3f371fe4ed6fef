import { Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import type { KafkaClient } from './client/client.ts';
import type { FetchedPartition } from './client/protocol.ts';
import { Fetcher } from './reading.ts';

const EMPTY: Omit<FetchedPartition, 'partition'> = {
  errorCode: 0,
  highWatermark: 7,
  abortedTransactions: [],
  batches: [],
};

function fetcherOf(client: Partial<Pick<KafkaClient, 'leaderId' | 'fetch' | 'invalidateMetadata'>>): Fetcher {
  return new Fetcher(client as KafkaClient, () => 1);
}

describe('a fetcher', () => {
  it('does not wait for a leader once the signal fired', async () => {
    const stop = new AbortController();
    const fetched = fetcherOf({ leaderId: () => new Promise(() => {}) }).fetch('t', 0, 0, 1, stop.signal);
    stop.abort();
    expect(await fetched).toBeUndefined();
  });

  it('rejects with the reason where there is no leader', async () => {
    const client = { leaderId: () => Promise.reject(new Unavailable('t/0 has no leader')) };
    const never = new AbortController().signal;
    await expect(fetcherOf(client).fetch('t', 0, 0, 1, never)).rejects.toThrow('t/0 has no leader');
  });

  it('fails for the one partition with unreadable records, where it failed for all of the broker', async () => {
    const fetcher = fetcherOf({
      leaderId: async () => 1,
      fetch: async () => ({
        responses: [
          {
            topicName: 't',
            partitions: [
              { ...EMPTY, partition: 0, fault: new Error('a malformed record') },
              { ...EMPTY, partition: 1, errorCode: 1 },
            ],
          },
        ],
      }),
      invalidateMetadata: () => {},
    });
    const never = new AbortController().signal;
    const [damaged, other] = [0, 1].map((partition) => fetcher.fetch('t', partition, 7, 1, never));
    await expect(damaged).rejects.toThrow(/reading t\/0 at 7: .*a malformed record/);
    await expect(other).rejects.toThrow(/out of range/);
  });

  it('sends no requests once all signals fired, and again for a later fetch', async () => {
    const stop = new AbortController();
    const asked: string[] = [];
    const fetcher = fetcherOf({
      leaderId: async () => 1,
      fetch: async (_nodeId, { partitions: of }) => {
        asked.push(of.map(({ topic, partition }) => `${topic}/${partition}`).join(' '));
        if (asked.length === 3) stop.abort();
        return {
          responses: of.map(({ topic, partition }) => ({
            topicName: topic,
            partitions: [{ partition, ...EMPTY }],
          })),
        };
      },
    });
    const both = [0, 1].map((partition) => fetcher.fetch('t', partition, 7, 1, stop.signal));
    expect(await Promise.all(both)).toEqual([undefined, undefined]);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(asked).toHaveLength(3);
    const again = new AbortController();
    void fetcher.fetch('t', 2, 7, 1, again.signal);
    await expect.poll(() => asked.length).toBeGreaterThan(3);
    again.abort();
    expect(asked.slice(3).every((of) => of === 't/2')).toBe(true);
  });
});
