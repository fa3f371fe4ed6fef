import { HEADER, type OutputRecord, parseRetrySchedule } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { PartitionWindows } from '../fairness/partition-windows.ts';
import { delivery, OK, POSTPONED, START, setUp } from './deliveries.fixture.ts';
import { deliver, retrySources } from './stage.ts';

describe('the retry topics', () => {
  it('hold every record equally long', () => {
    const sources = retrySources(parseRetrySchedule(['10s', '1m']));
    expect(sources.map(({ topic, dueAt }) => [topic, dueAt?.(5_000)])).toEqual([
      ['deliveries.retry.1s', 6_000],
      ['deliveries.retry.10s', 15_000],
      ['deliveries.retry.1m', 65_000],
    ]);
  });

  it('sent a delivery again before the time that its destination had asked for: it waits once more', async () => {
    const { stage, time, calls } = setUp(() => OK);
    const windows = new PartitionWindows(() => time.elapsed, { windowBytes: 100_000 });
    const { handle } = deliver(stage, windows);
    const value = JSON.stringify(delivery('1'));
    const headers = { ...POSTPONED, [HEADER.notBefore]: `${START + 14_000}` };
    const take = () =>
      new Promise<readonly OutputRecord[]>((done, failed) => {
        const position = { topic: 'deliveries.retry.10s', partition: 0, offset: 0, index: 0 };
        const { signal } = new AbortController();
        handle(
          { key: 'k', value, headers, timestamp: time.now, position },
          { signal, bytes: value.length, done, failed },
        );
      });
    time.now += 10_020;
    expect(await take()).toEqual([{ topic: 'deliveries.retry.1s', key: 'k', value, headers }]);
    expect(calls).toEqual([]);
    time.now += 3_980;
    expect(await take()).toMatchObject([{ headers: { outcome: 'delivered' } }]);
    // Written while a clock was a year ahead.
    headers[HEADER.notBefore] = `${START + 365 * 24 * 3_600_000}`;
    expect(await take()).toMatchObject([{ headers: { outcome: 'delivered' } }]);
  });
});
