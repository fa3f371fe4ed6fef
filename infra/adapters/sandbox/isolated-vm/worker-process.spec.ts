import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS, limitsFor, reportFrame } from './protocol.ts';
import { hasUsedItsTime, parseReport } from './worker-process.ts';

describe('A silent worker', () => {
  it('is not blamed for the processor time of an isolate made on a busy machine', () => {
    expect(hasUsedItsTime(DEFAULT_LIMITS.eventMs + 30, DEFAULT_LIMITS)).toBe(false);
    const shortest = limitsFor({ eventMs: 10, isolateMib: 16 });
    expect(hasUsedItsTime(shortest.eventMs + 20, shortest)).toBe(false);
  });

  it('is stuck once it has used the time of the watchdog', () => {
    expect(hasUsedItsTime(DEFAULT_LIMITS.watchdogMs - 1, DEFAULT_LIMITS)).toBe(false);
    expect(hasUsedItsTime(DEFAULT_LIMITS.watchdogMs, DEFAULT_LIMITS)).toBe(true);
  });
});

const FIGURES = { wallMs: 1, cpuMs: 1, loadMs: 0 } as const;

describe('parseReport', () => {
  it('reads the report of a worker', () => {
    const frame = reportFrame(
      { stop: 'ended', ...FIGURES },
      '[[0,0,[2,1]],["threw",0,["x",3,0],[["warn","w"]]]]\nabc',
    );
    expect(parseReport(frame)).toEqual({
      stop: 'ended',
      ...FIGURES,
      entries: [
        [0, 0, [2, 1]],
        ['threw', 0, ['x', 3, 0], [['warn', 'w']]],
      ],
    });
    expect(frame.body).toBe('abc');
  });

  it.each([
    ['lengths that do not fit', '[[0,0,[2]]]\nabc'],
    ['a negative length', '[[0,0,[-1,4]]]\nabc'],
    ['an unknown kind', '[["ok",0,[3]]]\nabc'],
    ['a message that is none', '[["threw",0,[7,0,0]]]\n'],
    ['a place that is none', '[["threw",0,["x",-1,0]]]\n'],
    ['a level that is none', '[[0,0,[3],[["loud","x"]]]]\nabc'],
    ['logs that are none', '[[0,0,[3],[7]]]\nabc'],
    ['entries that are none', '{}\n'],
    ['no JSON', '[\n'],
  ])('refuses %s', (_, answers) => {
    expect(() => parseReport(reportFrame({ stop: 'ended', ...FIGURES }, answers))).toThrow();
  });

  it('refuses a source that did not load without a reason', () => {
    expect(() => parseReport(reportFrame({ stop: 'unloadable', ...FIGURES }))).toThrow(TypeError);
  });
});
