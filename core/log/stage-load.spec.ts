import { describe, expect, it } from 'vitest';
import { AppendTimes, type PartitionLag, type StageSample, stageLoad } from './stage-load.ts';

const NOW = 1_000_000_000;

/** So many partitions at the same position and end. */
const alike = (count: number, position: number, end: number) =>
  Array.from({ length: count }, () => [position, end] as const);

/** Partitions of one topic, each with its position and end. */
function partitions(of: readonly (readonly [number, number])[], topic = 'events.accepted'): PartitionLag[] {
  return of.map(([position, end], partition) => ({ topic, partition, position, end, lag: end - position }));
}

function sample(
  at: number,
  of: readonly (readonly [number, number])[],
  { members = 1, oldestS }: { members?: number; oldestS?: number } = {},
): StageSample {
  const oldestAt = oldestS === undefined ? {} : { oldestAt: at - oldestS * 1_000 };
  return { at, members, partitions: partitions(of).map((one) => ({ ...one, ...oldestAt })) };
}

describe('the load of a stage', () => {
  it('has no rates before its second sample', () => {
    const load = stageLoad(undefined, sample(NOW, [[5, 9]], { oldestS: 3 }));
    expect(load).toMatchObject({ lagRecords: 4, lagSeconds: 3 });
    expect([load.arrivalPerSecond, load.wantedProcesses, load.secondsToEmpty]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(stageLoad(undefined, sample(NOW, [[9, 9]])).secondsToEmpty).toBe(0);
  });

  it('has the rates of all partitions, and the time to empty at them', () => {
    const before = sample(NOW, alike(2, 0, 1_000));
    const now = sample(NOW + 10_000, [
      [500, 1_100],
      [700, 1_100],
    ]);
    expect(stageLoad(before, now)).toMatchObject({
      lagRecords: 1_000,
      arrivalPerSecond: 20,
      drainPerSecond: 120,
      secondsToEmpty: 10,
    });
  });

  it('never empties a lag that grows or stands', () => {
    const standing = stageLoad(sample(NOW, [[5, 10]]), sample(NOW + 1_000, [[5, 10]], { oldestS: 60 }));
    expect(standing).toMatchObject({ drainPerSecond: 0, secondsToEmpty: Number.POSITIVE_INFINITY });
  });

  it('wants what arrivals and lag take at the measured capacity, and at most one a partition', () => {
    // 1 process drains 400/s, 600/s arrive, 60,000 are left: 600 + 60,000 / 300 s = 800/s.
    const now = sample(NOW + 10_000, alike(4, 1_000, 16_000), { oldestS: 60 });
    const before = sample(NOW, alike(4, 0, 14_500));
    expect(stageLoad(before, now)).toMatchObject({ capacityPerProcess: 400, wantedProcesses: 2 });
    const deep = sample(NOW + 10_000, alike(4, 1_000, 1_000_000), { oldestS: 60 });
    expect(stageLoad(before, deep).wantedProcesses).toBe(4);
  });

  it('does not want more processes for a stage that is stuck, nor fewer for one that is behind', () => {
    const of = alike(3, 0, 90_000);
    const stuck = stageLoad(
      sample(NOW, of, { members: 2 }),
      sample(NOW + 5_000, of, { members: 2, oldestS: 99 }),
      10,
    );
    expect(stuck).toMatchObject({ drainPerSecond: 0, wantedProcesses: 2, capacityPerProcess: 10 });
    const almost = stageLoad(
      sample(NOW, [[0, 100]], { members: 3 }),
      sample(NOW + 1_000, [[99, 100]], { members: 3, oldestS: 20 }),
    );
    expect(almost.wantedProcesses).toBe(1); // one partition
  });

  it('does not take the rate of the partitions that move for a capacity where one stands still', () => {
    const stands = {
      topic: 'events.accepted',
      partition: 3,
      position: 7,
      end: 9_000,
      lag: 8_993,
      oldestAt: 0,
    };
    const moving = (end: number) => partitions(alike(3, end, end));
    const before = { at: NOW, members: 2, partitions: [...moving(100), stands] };
    const now = { at: NOW + 10_000, members: 2, partitions: [...moving(200), stands] };
    expect(stageLoad(before, now)).toMatchObject({ capacityPerProcess: undefined, wantedProcesses: 2 });
    expect(stageLoad(before, now, 500)).toMatchObject({ capacityPerProcess: 500, wantedProcesses: 2 });
  });

  it('wants one process where none runs, and as many as the capacity measured before requires', () => {
    const before = sample(NOW, alike(3, 0, 0), { members: 0 });
    const now = sample(NOW + 20_000, alike(3, 0, 2_000), { members: 0, oldestS: 20 });
    expect(stageLoad(before, now).wantedProcesses).toBe(1);
    // 300/s arrive, 6,000 are left: 320/s.
    expect(stageLoad(before, now, 150).wantedProcesses).toBe(3);
  });

  it('gives processes back by the last measured capacity, and none before a measurement', () => {
    const before = sample(NOW, alike(4, 0, 0), { members: 4 });
    const now = sample(NOW + 10_000, alike(4, 750, 750), { members: 4 });
    expect(stageLoad(before, now).wantedProcesses).toBe(4);
    expect(stageLoad(before, now, 200)).toMatchObject({ arrivalPerSecond: 300, wantedProcesses: 2 });
    expect(stageLoad(before, now, 10).wantedProcesses).toBe(4);
  });

  it('counts intended waiting in a delayed topic as no lag', () => {
    const delayed = partitions([[0, 500]], 'deliveries.retry.10m').map((one) => ({ ...one, oldestAt: 0 }));
    const now = { at: NOW, members: 1, partitions: [...partitions([[7, 7]]), ...delayed] };
    expect(stageLoad(undefined, now)).toMatchObject({ lagRecords: 0, lagSeconds: 0 });
  });

  it('counts no rate below zero where a topic was created again, and a new partition from its start', () => {
    const load = stageLoad(
      sample(NOW, [[900, 900]]),
      sample(NOW + 1_000, [
        [0, 5],
        [3, 4],
      ]),
    );
    expect(load).toMatchObject({ arrivalPerSecond: 4, drainPerSecond: 3 });
  });
});

describe('the times of appends', () => {
  it('are interpolated between the ends that were seen', () => {
    const times = new AppendTimes();
    times.ended(1_000, 0);
    times.ended(2_000, 100);
    times.ended(3_000, 100);
    times.ended(4_000, 300);
    expect(times.timeOf(50)).toBe(1_500);
    expect(times.timeOf(100)).toBe(3_000); // not before the partition was seen without it
    expect(times.timeOf(200)).toBe(3_500);
    expect(times.timeOf(300)).toBeUndefined();
  });

  it('know records of before the first end by one that was read', () => {
    const times = new AppendTimes();
    times.ended(9_000, 50);
    expect(times.timeOf(10)).toBeUndefined();
    times.appended(1_000, 10);
    expect(times.timeOf(10)).toBe(1_000);
    expect(times.timeOf(30)).toBe(5_000);
    expect(times.timeOf(9)).toBeUndefined();
  });

  it('start again with a topic that was created again', () => {
    const times = new AppendTimes();
    times.ended(1_000, 0);
    times.ended(2_000, 100);
    times.ended(3_000, 5);
    expect(times.timeOf(2)).toBeUndefined();
  });

  it('stay exact to a share of their age for days', () => {
    const times = new AppendTimes();
    const startedAt = 1_000_000;
    const days = 3 * 24 * 60 * 4;
    // A scrape each 15 s; the rate of appends doubles and halves by the hour.
    const endAt = (n: number) => 100 * n + Math.round(5_000 * Math.sin(n / 240));
    for (let n = 0; n <= days; n++) times.ended(startedAt + n * 15_000, endAt(n));
    const now = startedAt + days * 15_000;
    for (const ago of [1, 10, 100, 1_000, 10_000]) {
      const age = now - (times.timeOf(endAt(days - ago)) ?? 0);
      expect(Math.abs(age / (ago * 15_000) - 1), `${ago} scrapes ago`).toBeLessThan(0.1);
    }
  });
});
