import { describe, expect, it } from 'vitest';
import { Overloaded } from '../primitives/errors.ts';
import { ThreadTurns } from './thread-turns.ts';

/** Turns on a clock that only the work moves. */
function setUp() {
  let now = 0;
  const done: string[] = [];
  const turns = new ThreadTurns({ elapsed: () => now, isBusy: () => true });
  const steps = function* (name: string, count: number, ms: number) {
    for (let n = 0; n < count; n++) {
      now += ms;
      done.push(name);
      yield undefined;
    }
    return name;
  };
  return { turns, done, steps };
}

describe('the turns of a thread', () => {
  it('one owner with many calls delayed the only call of another until all of them had ended', async () => {
    const { turns, done, steps } = setUp();
    const many = Array.from({ length: 13 }, () => turns.runSteps('a', steps('a', 4, 2)));
    await Promise.all([...many, turns.runSteps('b', steps('b', 4, 2))]);
    expect(done.slice(0, 8)).toEqual(['a', 'b', 'a', 'b', 'a', 'b', 'a', 'b']);
  });

  it('short steps are run together, and long ones one at a time', async () => {
    const { turns, done, steps } = setUp();
    await Promise.all([turns.runSteps('a', steps('a', 20, 0.125)), turns.runSteps('b', steps('b', 2, 5))]);
    expect(done.slice(0, 9)).toEqual([...Array(8).fill('a'), 'b']);
  });

  it('a step whose promise is pending keeps no other owner waiting', async () => {
    const { turns, done, steps } = setUp();
    const gate = Promise.withResolvers<void>();
    const waiting = turns.runSteps(
      'a',
      (function* () {
        yield gate.promise;
        return done.length;
      })(),
    );
    expect(await turns.runSteps('b', steps('b', 3, 1))).toBe('b');
    gate.resolve();
    expect(await waiting).toBe(3);
  });

  it('work for a caller that disconnected ends, and an error of a step is that of the call', async () => {
    const { turns, done, steps } = setUp();
    const left = new AbortController();
    const running = turns.runSteps('a', steps('a', 1_000, 2), left.signal);
    await turns.run('b', () => left.abort());
    await expect(running).rejects.toThrow(Overloaded);
    expect(done.length).toBeLessThan(10);
    const failing = function* () {
      yield undefined;
      throw new Error('a broken step');
    };
    await expect(turns.runSteps('a', failing())).rejects.toThrow('a broken step');
  });

  it('a workspace with a thousand queued tasks does not delay one with two', async () => {
    const turns = new ThreadTurns({ elapsed: () => 0, isBusy: () => false });
    const done: string[] = [];
    const many = Array.from({ length: 1_000 }, (_, n) => turns.run('many', () => done.push(`many ${n}`)));
    const few = [1, 2].map((n) => turns.run('few', () => done.push(`few ${n}`)));
    await Promise.all([...many, ...few]);
    expect(done.slice(0, 4)).toEqual(['many 0', 'few 1', 'many 1', 'few 2']);
    expect(done).toHaveLength(1_002);
    expect(done.at(-1)).toBe('many 999');
  });

  it('pauses three times as long as it works while others are busy, otherwise as long', async () => {
    for (const [busy, least] of [
      [true, 3],
      [false, 1],
    ] as const) {
      let worked = 0;
      const turns = new ThreadTurns({ elapsed: () => performance.now(), isBusy: () => busy });
      const began = performance.now();
      const work = () => {
        const at = performance.now();
        while (performance.now() - at < 4);
        worked += performance.now() - at;
      };
      await Promise.all(Array.from({ length: 10 }, () => turns.run('w', work)));
      await turns.run('w', () => {});
      expect(performance.now() - began).toBeGreaterThan(worked * (1 + least) * 0.9);
    }
  });

  it('rejects with the error of a task, and continues', async () => {
    const turns = new ThreadTurns({ elapsed: () => 0, isBusy: () => false });
    const failed = turns.run('w', () => {
      throw new Error('no');
    });
    const next = turns.run('w', () => 7);
    await expect(failed).rejects.toThrow('no');
    expect(await next).toBe(7);
    expect(await turns.run('w', () => 8)).toBe(8);
  });
});
