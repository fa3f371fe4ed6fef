import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Pump, WINDOW_MS, WORK_MS } from './live-events.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A pump with turns of `turnMs` each, and a record of the time at which each stream was served. */
function setUp(turnMs: number, more: (name: string) => boolean = () => false) {
  let time = 0;
  const served: { readonly name: string; readonly at: number }[] = [];
  const pump = new Pump<string>(
    (name) => {
      served.push({ name, at: time });
      time += turnMs;
      return more(name);
    },
    () => time,
  );
  return {
    pump,
    served,
    names: () => served.map(({ name }) => name),
    pass(ms: number) {
      for (let i = 0; i < ms; i++) {
        time += 1;
        vi.advanceTimersByTime(1);
      }
    },
  };
}

describe('a pump', () => {
  it('serves a stream once per pass, however often it was woken', () => {
    const { pump, names, pass } = setUp(0.1);
    for (const name of ['a', 'b', 'a', 'a']) pump.wake(name);
    expect(names()).toEqual([]);
    pass(1);
    expect(names()).toEqual(['a', 'b']);
    pump.wake('b');
    pass(1);
    expect(names()).toEqual(['a', 'b', 'b']);
  });

  it('works a small share of the time, however much there is to do, and serves all alike', () => {
    const { pump, served, pass } = setUp(0.5, () => true);
    const all = Array.from({ length: 100 }, (_, n) => `s${n}`);
    for (const name of all) pump.wake(name);
    pass(10 * WINDOW_MS * 20);
    const share = (served.length * 0.5) / (10 * WINDOW_MS * 20);
    expect(share).toBeLessThanOrEqual((WORK_MS / WINDOW_MS) * 1.2);
    expect(share).toBeGreaterThan((WORK_MS / WINDOW_MS) * 0.7);
    const turns = all.map((name) => served.filter((one) => one.name === name).length);
    expect(Math.max(...turns) - Math.min(...turns)).toBeLessThanOrEqual(1);
  });

  it('continues by itself with sources that have more, until all are done', () => {
    let left = 20;
    const { pump, served, pass } = setUp(1, () => --left > 0);
    pump.wake('a');
    pass(WINDOW_MS * 10);
    expect(served).toHaveLength(20);
  });

  it('forgets removed sources, and everything when it stops', () => {
    const { pump, names, pass } = setUp(1);
    pump.wake('a');
    pump.wake('b');
    pump.forget('a');
    pass(1);
    expect(names()).toEqual(['b']);
    pump.wake('c');
    pump.stop();
    pass(WINDOW_MS);
    expect(names()).toEqual(['b']);
  });
});
