import { describe, expect, it } from 'vitest';
import { afterRuns, DEFAULT_FAILURE_LIMITS, isFailing, NO_RUNS, type RunFailure } from './failure-rate.ts';

const LIMITS = DEFAULT_FAILURE_LIMITS;

function failingAfter(...batches: readonly (readonly RunFailure[])[]): boolean {
  const rate = batches.reduce((before, batch) => afterRuns(before, batch, LIMITS), NO_RUNS);
  return isFailing(rate, LIMITS);
}

function times(count: number, outcome: RunFailure): readonly RunFailure[] {
  return Array.from({ length: count }, () => outcome);
}

describe('failure rate', () => {
  it('says nothing before there were enough runs', () => {
    expect(failingAfter(times(19, 'threw'))).toBe(false);
    expect(failingAfter(times(20, 'threw'))).toBe(true);
  });

  it('needs more than half of the window', () => {
    expect(failingAfter(times(50, undefined), times(50, 'threw'))).toBe(false);
    expect(failingAfter(times(49, undefined), times(51, 'threw'))).toBe(true);
  });

  it('forgets what is older than the window', () => {
    expect(failingAfter(times(60, 'threw'), times(100, undefined))).toBe(false);
    expect(failingAfter(times(1_000, undefined), times(60, 'output'))).toBe(true);
  });

  it('needs five timeouts or memory kills in a row, also over batches', () => {
    expect(failingAfter(times(3, 'timeout'), times(1, 'memory'))).toBe(false);
    expect(failingAfter(times(3, 'timeout'), times(2, 'memory'))).toBe(true);
    expect(failingAfter(times(4, 'timeout'), [undefined], times(4, 'timeout'))).toBe(false);
    expect(failingAfter(times(4, 'timeout'), ['threw'], times(4, 'timeout'))).toBe(false);
  });

  it('five kills in the middle of a batch are seen although others of it went well', () => {
    expect(failingAfter([...times(5, 'timeout'), ...times(5, undefined)])).toBe(true);
  });
});
