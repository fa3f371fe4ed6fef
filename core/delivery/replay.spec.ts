import { expect, it } from 'vitest';
import { replayProgress } from './replay.ts';

const cursor = (partition: number, from: number, next: number, end: number) => ({
  partition,
  from,
  next,
  end,
});

it('the share that is done counts the records read of all partitions', () => {
  const cursors = [cursor(0, 10, 20, 20), cursor(1, 0, 10, 30)];
  expect(replayProgress({ cursors, status: 'running' })).toBe(0.5);
  expect(replayProgress({ cursors: [], status: 'running' })).toBe(0);
  expect(replayProgress({ cursors: [cursor(0, 5, 5, 5)], status: 'finished' })).toBe(1);
});
