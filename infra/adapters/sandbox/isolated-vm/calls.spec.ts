import { describe, expect, it } from 'vitest';
import { afterReport, chunkOf, limitMsOf, shortOfMemory } from './calls.ts';
import type { Report } from './protocol.ts';
import { DEFAULT_LIMITS } from './protocol.ts';

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

describe('the next steps after a report', () => {
  it('run the event that timed out alone, and the others as before', () => {
    const { chunks, fault } = afterReport(CHUNK, report('timeout', 1), LIMITS);
    expect(chunks).toEqual([{ ...ALONE, first: 11 }, chunkOf(12, 2)]);
    expect(fault).toBeUndefined();
    expect(afterReport(CHUNK, report('timeout', 3), LIMITS).chunks).toEqual([{ ...ALONE, first: 13 }]);
  });

  it.each(['memory', 'hung'] as const)('run each event alone after %s', (stop) => {
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
    expect(afterReport(ALONE, report(stop), LIMITS)).toMatchObject({ chunks: [], fault: { kind } });
  });

  it.each([3, 80])(
    'retry with twice the time when the machine and not the code used it (%i ms of 100)',
    (cpuMs) => {
      const starved = report('timeout', 0, cpuMs);
      const { chunks } = afterReport(ALONE, starved, LIMITS);
      expect(chunks).toEqual([{ ...ALONE, starved: 1 }]);
      expect(chunks.map((chunk) => limitMsOf(chunk, LIMITS))).toEqual([2 * LIMITS.eventMs]);
      expect(afterReport({ ...ALONE, starved: 4 }, starved, LIMITS).chunks).toEqual([
        { ...ALONE, starved: 5 },
      ]);
      expect(afterReport({ ...ALONE, starved: 5 }, starved, LIMITS).fault?.kind).toBe('timeout');
    },
  );

  it('are the same for a source that was stopped while it was loaded', () => {
    const fault = { kind: 'timeout', message: 'the source took longer than 100 ms to load' } as const;
    const starved = { ...report('unloadable', 0, 20), fault };
    expect(afterReport(CHUNK, starved, LIMITS).chunks).toEqual([{ ...CHUNK, starved: 1 }]);
    expect(afterReport(CHUNK, { ...starved, cpuMs: 95 }, LIMITS)).toEqual({ chunks: [], restFault: fault });
  });

  it('blame the code that used its processor time in a longer run', () => {
    const long = { ...report('timeout', 0, 90), wallMs: 400 };
    expect(afterReport({ ...ALONE, starved: 2 }, long, LIMITS).fault?.kind).toBe('timeout');
  });
});

describe('events without memory', () => {
  const full = ['threw', 1, ['RangeError: Array buffer allocation failed (line 2)', 2, 1]] as const;
  const other = ['threw', 1, ['RangeError: Invalid array length', 0, 0]] as const;

  it('run again alone, as other programs may hold the memory', () => {
    expect(shortOfMemory(CHUNK, [[0, 1, [2]], full, other, full])).toEqual([
      { ...ALONE, first: 11 },
      { ...ALONE, first: 13 },
    ]);
  });
});
