import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS } from './limits.ts';
import type { Report } from './messages.ts';
import { afterKill, afterReport, chunkOf, crowdedOut } from './verdict.ts';

const LIMITS = DEFAULT_LIMITS;
const CHUNK = chunkOf(10, 4);
const ALONE = { first: 10, count: 1, alone: true, starved: 0 };

function report(stop: Report['stop'], done = 0, cpuMs = 100): Report {
  return {
    stop,
    wallMs: 100,
    cpuMs,
    loadMs: 0,
    entries: Array.from({ length: done }, () => [0, 0, []] as const),
  };
}

describe('what follows from a report', () => {
  it('is nothing when all is done, the rest when others had their turn', () => {
    expect(afterReport(CHUNK, report('ended', 4), LIMITS)).toEqual({ chunks: [] });
    expect(afterReport(CHUNK, report('ended', 1), LIMITS)).toEqual({ chunks: [chunkOf(11, 3)] });
  });

  it('is a run alone for the event that timed out among others, the others go on', () => {
    const { chunks, verdict } = afterReport(CHUNK, report('timeout', 1), LIMITS);
    expect(chunks).toEqual([{ ...ALONE, first: 11 }, chunkOf(12, 2)]);
    expect(verdict).toBeUndefined();
    expect(afterReport(CHUNK, report('timeout', 3), LIMITS).chunks).toEqual([{ ...ALONE, first: 13 }]);
  });

  it.each(['memory', 'hung'] as const)('is a run alone for each event after %s', (stop) => {
    const { chunks } = afterReport(CHUNK, report(stop), LIMITS);
    expect(chunks.map(({ first, alone }) => [first, alone])).toEqual([
      [10, true],
      [11, true],
      [12, true],
      [13, true],
    ]);
  });

  it.each([
    ['timeout', 'timeout'],
    ['hung', 'timeout'],
    ['memory', 'memory'],
  ] as const)('is a verdict after %s alone', (stop, kind) => {
    expect(afterReport(ALONE, report(stop), LIMITS)).toMatchObject({ chunks: [], verdict: { kind } });
  });

  it('is another try, five times, when the machine and not the code took the time', () => {
    const starved = report('timeout', 0, 10);
    expect(afterReport(ALONE, starved, LIMITS).chunks).toEqual([{ ...ALONE, starved: 1 }]);
    expect(afterReport({ ...ALONE, starved: 25 }, starved, LIMITS).verdict?.kind).toBe('timeout');
  });

  it('is a verdict at once when no time was up, as the machine had no part in it', () => {
    const quick = { ...report('hung', 0, 1), wallMs: 2 };
    expect(afterReport(ALONE, quick, LIMITS)).toMatchObject({ chunks: [], verdict: { kind: 'timeout' } });
  });

  it('is the fault of every event when the source does not load', () => {
    const fault = { kind: 'compile', message: 'no' } as const;
    expect(afterReport(CHUNK, { ...report('unloadable'), fault }, LIMITS)).toEqual({
      chunks: [],
      rest: fault,
    });
  });
});

describe('what had no room', () => {
  const full = ['threw', 1, ['RangeError: Array buffer allocation failed (line 2)', 2, 1]] as const;
  const other = ['threw', 1, ['RangeError: Invalid array length', 0, 0]] as const;

  it('runs again alone, as others may hold what it lacks', () => {
    expect(crowdedOut(CHUNK, [[0, 1, [2]], full, other, full])).toEqual([
      { ...ALONE, first: 11 },
      { ...ALONE, first: 13 },
    ]);
  });

  it('has failed when it was alone', () => {
    expect(crowdedOut(ALONE, [full])).toEqual([]);
  });
});

describe('what follows from a kill', () => {
  it('is a run alone for each event, then a verdict', () => {
    expect(afterKill(CHUNK, 'memory', 1, LIMITS).chunks).toHaveLength(4);
    expect(afterKill(ALONE, 'memory', 2, LIMITS)).toMatchObject({ verdict: { kind: 'memory' }, chunks: [] });
  });

  it('is the end of the call at the third in a row', () => {
    const { verdict, rest, chunks } = afterKill(ALONE, 'timeout', 3, LIMITS);
    expect(verdict?.kind).toBe('timeout');
    expect(rest?.message).toContain('3 times');
    expect(chunks).toEqual([]);
  });
});
