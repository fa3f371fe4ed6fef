import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { FairSemaphore } from './turns.ts';

const STAYS = new AbortController().signal;

/** Tasks that start when admitted by the semaphore and end when the test releases them. */
function setUp(maxWaiting = 20, maxWaitingPerOwner = 4, concurrency = 2) {
  const semaphore = new FairSemaphore({
    concurrency,
    maxWaiting,
    maxWaitingPerOwner,
    retryAfterSeconds: 2,
  });
  const started: string[] = [];
  const run = (owner: string, disconnected = STAYS) => {
    const gate = Promise.withResolvers<void>();
    const result = semaphore.run(owner, disconnected, async () => {
      started.push(owner);
      await gate.promise;
      return owner;
    });
    result.catch(() => {}); // each test checks the results it needs
    return { result, end: gate.resolve, fail: () => gate.reject(new Error('failed')) };
  };
  return { started, run };
}
const tooMany = { status: 429, retryAfterSeconds: 2 };

describe('a fair semaphore', () => {
  it('runs so many tasks at a time, the next as one ends, also when it fails', async () => {
    const { started, run } = setUp();
    const [a, b, c, d] = [run('a'), run('b'), run('c'), run('d')];
    expect(started).toEqual(['a', 'b']);
    b.fail();
    await expect(b.result).rejects.toThrow('failed');
    a.end();
    expect(await a.result).toBe('a');
    c.end();
    d.end();
    expect(await Promise.all([c.result, d.result])).toEqual(['c', 'd']);
    expect(started).toEqual(['a', 'b', 'c', 'd']);
  });

  it('rejects a task when too many wait, of all owners or of one', async () => {
    const { run } = setUp(5, 2);
    for (let n = 0; n < 4; n++) run('a');
    await expect(run('a').result).rejects.toMatchObject(tooMany);
    for (const owner of ['b', 'c', 'd']) run(owner);
    await expect(run('e').result).rejects.toMatchObject(tooMany);
  });

  it('does not let an owner with many tasks keep the others out', async () => {
    const { started, run } = setUp();
    const [first] = [run('a'), run('a'), run('a'), run('a'), run('b')];
    first?.end();
    await first?.result;
    await nextTurn();
    expect(started).toEqual(['a', 'a', 'b']);
  });

  it.each([1, 2])(
    'let a third owner wait for all tasks of two others, %s at a time: they take turns',
    async (concurrency) => {
      const limits = { concurrency, maxWaiting: 20, maxWaitingPerOwner: 10, retryAfterSeconds: 1 };
      const semaphore = new FairSemaphore(limits);
      const started: string[] = [];
      const tasks = ['a', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'c'].map((owner) =>
        semaphore.run(owner, STAYS, async () => {
          started.push(owner);
          await nextTurn();
        }),
      );
      await Promise.all(tasks);
      expect(started.indexOf('c')).toBeLessThanOrEqual(concurrency + 2);
      expect(started).toHaveLength(tasks.length);
    },
  );

  it('runs no task of a client that has disconnected', async () => {
    const { started, run } = setUp();
    const first = run('a');
    run('b');
    const disconnected = new AbortController();
    const third = run('c', disconnected.signal);
    disconnected.abort();
    await expect(third.result).rejects.toMatchObject(tooMany);
    first.end();
    await first.result;
    await nextTurn();
    expect(started).toEqual(['a', 'b']);
  });
});
