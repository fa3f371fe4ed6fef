import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { mapConcurrently, sharedByCallers } from './concurrency.ts';

it('has the results in the order of the items, and runs no more tasks than the limit', async () => {
  let running = 0;
  let most = 0;
  const doubled = await mapConcurrently([30, 1, 20, 2, 10, 3], 3, async (ms) => {
    running += 1;
    most = Math.max(most, running);
    await sleep(ms);
    running -= 1;
    return ms * 2;
  });
  expect(doubled).toEqual([60, 2, 40, 4, 20, 6]);
  expect(most).toBe(3);
  expect(await mapConcurrently([], 3, sleep)).toEqual([]);
});

it('rejects with the first failure once no task runs, and begins none after it', async () => {
  const begun: number[] = [];
  const over: number[] = [];
  const failing = mapConcurrently([40, 5, 20, 1], 3, async (ms) => {
    begun.push(ms);
    await sleep(ms);
    over.push(ms);
    if (ms < 40) throw new Error(`failed after ${ms} ms`);
  });
  await expect(failing).rejects.toThrow('failed after 5 ms');
  expect(over).toEqual([5, 20, 40]);
  expect(begun).toEqual([40, 5, 20]);
});

it('takes a task that throws as one that rejects', async () => {
  const throws = () => {
    throw new TypeError('no task');
  };
  await expect(mapConcurrently([1, 2], 2, throws)).rejects.toThrow('no task');
});

/** A look-up whose runs end when the test says so. */
function lookUp() {
  const runs: PromiseWithResolvers<void>[] = [];
  const call = sharedByCallers(() => {
    const run = Promise.withResolvers<void>();
    runs.push(run);
    return run.promise;
  });
  const begun = () => new Promise(setImmediate);
  return { runs, call, begun };
}

describe('a look-up shared by its callers', () => {
  it('runs once more for callers that arrive meanwhile: it may have passed their entries', async () => {
    const { runs, call, begun } = lookUp();
    const first = call();
    await begun();
    let isAnswered = false;
    const later = [call(), call()].map(async (each) => {
      await each;
      isAnswered = true;
    });
    runs[0]?.resolve();
    await first;
    await begun();
    expect(isAnswered).toBe(false);
    runs[1]?.resolve();
    await Promise.all(later);
    expect(runs).toHaveLength(2);
  });

  it('fails the callers of a failed run, and none of later ones', async () => {
    const { runs, call, begun } = lookUp();
    const first = call();
    await begun();
    const second = call();
    runs[0]?.reject(new Error('the broker is away'));
    await expect(first).rejects.toThrow('the broker is away');
    await begun();
    runs[1]?.resolve();
    await expect(second).resolves.toBeUndefined();
  });
});
