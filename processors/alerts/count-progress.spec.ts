import type { PartitionLag, StageSample } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { CountProgress } from './count-progress.ts';

const lag = (of: Partial<PartitionLag>): PartitionLag => ({
  topic: 't',
  partition: 0,
  position: 0,
  end: 0,
  lag: 0,
  ...of,
});
const sample = (...partitions: readonly PartitionLag[]): StageSample => ({ at: 0, members: 1, partitions });
const IDLE = sample(lag({}));
const behind = (oldestAt: number) => sample(lag({}), lag({ lag: 3, oldestAt }));
const UNKNOWN_AGE = sample(lag({ lag: 3 }));

/** Samplings at times in order, one ms long. */
function follow(
  ...samplings: readonly (readonly [at: number, StageSample | undefined, StageSample | undefined])[]
) {
  const progress = new CountProgress();
  return samplings.map(([at, validate, funnel]) =>
    progress.add({ beganAt: at, endedAt: at + 1, validate, funnel }),
  );
}

describe('events are counted', () => {
  it('until the sampling before, while all stages keep up', () => {
    const [first, second, third] = follow([100, IDLE, IDLE], [200, IDLE, IDLE], [300, IDLE, IDLE]);
    expect(first).toEqual({ events: undefined, deliveries: 100 });
    expect(second).toEqual({ events: 100, deliveries: 200 });
    expect(third).toEqual({ events: 200, deliveries: 300 });
  });

  it('until the oldest event that is not validated', () => {
    const all = follow(
      [100, IDLE, IDLE],
      [200, behind(120), IDLE],
      [300, behind(150), IDLE],
      [400, IDLE, IDLE],
      [500, IDLE, IDLE],
    );
    expect(all.map(({ events }) => events)).toEqual([undefined, 100, 120, 150, 400]);
  });

  it('until the events validated before the oldest count that is not stored', () => {
    const all = follow(
      [100, IDLE, IDLE],
      [200, behind(120), behind(150)],
      [300, IDLE, behind(250)],
      [400, IDLE, behind(290)],
      [500, IDLE, IDLE],
    );
    // At 250 validate was where it was sampled at 201: at 120.
    expect(all.map(({ events }) => events)).toEqual([undefined, 100, 120, 120, 400]);
    expect(all.map(({ deliveries }) => deliveries)).toEqual([100, 150, 250, 290, 500]);
  });

  it('to an unknown time, where a stage or the age of its lag is unknown', () => {
    for (const stage of [undefined, UNKNOWN_AGE]) {
      expect(follow([100, IDLE, IDLE], [200, IDLE, stage])[1]).toEqual({
        events: undefined,
        deliveries: undefined,
      });
      expect(follow([100, stage, IDLE], [200, stage, IDLE])[1]?.events).toBeUndefined();
    }
  });
});
