import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Turns } from './fair-semaphore.ts';

const STAYS = new AbortController().signal;

/** Works that begin when their turn comes and end when they are told to. */
function setUp(waiting = 20, waitingEach = 4) {
  const turns = new Turns({ atATime: 2, waiting, waitingEach, retryAfterSeconds: 2 });
  const begun: string[] = [];
  const take = (who: string, gone = STAYS) => {
    const gate = Promise.withResolvers<void>();
    const taken = turns.take(who, gone, async () => {
      begun.push(who);
      await gate.promise;
      return who;
    });
    taken.catch(() => {}); // each test looks at those that it means
    return { taken, end: gate.resolve, fail: () => gate.reject(new Error('failed')) };
  };
  return { begun, take };
}
const tooMany = { status: 429, retryAfterSeconds: 2 };

describe('turns', () => {
  it('lets so many at a time, the next as one ends, also when it fails', async () => {
    const { begun, take } = setUp();
    const [a, b, c, d] = [take('a'), take('b'), take('c'), take('d')];
    expect(begun).toEqual(['a', 'b']);
    b.fail();
    await expect(b.taken).rejects.toThrow('failed');
    a.end();
    expect(await a.taken).toBe('a');
    c.end();
    d.end();
    expect(await Promise.all([c.taken, d.taken])).toEqual(['c', 'd']);
    expect(begun).toEqual(['a', 'b', 'c', 'd']);
  });

  it('refuses who comes when too many wait, of all or of one', async () => {
    const { take } = setUp(5, 2);
    for (let n = 0; n < 4; n++) take('a');
    await expect(take('a').taken).rejects.toMatchObject(tooMany);
    for (const who of ['b', 'c', 'd']) take(who);
    await expect(take('e').taken).rejects.toMatchObject(tooMany);
  });

  it('one who asks and asks does not keep the others out', async () => {
    const { begun, take } = setUp();
    const [first] = [take('a'), take('a'), take('a'), take('a'), take('b')];
    first?.end();
    await first?.taken;
    await nextTurn();
    expect(begun).toEqual(['a', 'a', 'b']);
  });

  it('does nothing for who is gone', async () => {
    const { begun, take } = setUp();
    const first = take('a');
    take('b');
    const gone = new AbortController();
    const third = take('c', gone.signal);
    gone.abort();
    await expect(third.taken).rejects.toMatchObject(tooMany);
    first.end();
    await first.taken;
    await nextTurn();
    expect(begun).toEqual(['a', 'b']);
  });
});
