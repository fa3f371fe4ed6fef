import { expect, it } from 'vitest';
import { longestStandstills, ratesOf } from './handover.ts';

const at = (ms: number, committed: number, end = 10_000, partition = 0) => ({
  at: ms,
  stage: 'validate',
  partition,
  committed,
  end,
});

it('a standstill is from one commit to the next, while there is something to do', () => {
  const samples = [at(0, 0), at(100, 500), at(200, 500), at(900, 600), at(1_000, 700)];
  expect(longestStandstills(samples, 0, 1_000)).toEqual([{ stage: 'validate', partition: 0, ms: 800 }]);
  expect(longestStandstills(samples, 950, 1_000)).toEqual([{ stage: 'validate', partition: 0, ms: 100 }]);
});

it('a partition with nothing before it does not stand still', () => {
  const samples = [at(0, 500, 500), at(5_000, 500, 500), at(5_100, 500, 700), at(5_200, 700, 700)];
  expect(longestStandstills(samples, 0, 6_000)).toEqual([{ stage: 'validate', partition: 0, ms: 100 }]);
});

it('a rate is that of all partitions together', () => {
  const samples = [at(0, 0), at(0, 0, 10_000, 1), at(2_000, 1_000), at(2_000, 3_000, 10_000, 1)];
  expect([...ratesOf(samples, 0, 2_000)]).toEqual([['validate', 2_000]]);
});
