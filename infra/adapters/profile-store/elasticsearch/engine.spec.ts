import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Overloaded, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { SharedRequests } from './engine.ts';

interface Sent {
  readonly items: readonly string[];
  readonly answer: () => void;
  readonly fail: (error: Error) => void;
}

function shared(
  limits: { readonly maxItems?: number; readonly maxSize?: number; readonly maxQueueSize?: number } = {},
) {
  const sent: Sent[] = [];
  const calls = new SharedRequests<string, string>({
    send: (items) =>
      new Promise((resolve, reject) => {
        sent.push({ items, answer: () => resolve(items.map((item) => `${item}!`)), fail: reject });
      }),
    inFlight: 2,
    minConcurrentItems: 3,
    slowAfterMs: 60,
    maxItems: limits.maxItems ?? 100,
    maxSize: limits.maxSize ?? 100,
    sizeOf: (item) => item.length,
    maxQueueSize: limits.maxQueueSize ?? 100,
  });
  const items = () => sent.map((one) => one.items.join(''));
  return { calls, sent, items };
}

describe('calls that share requests', () => {
  it('of one turn share a request, each with its own answers', async () => {
    const { calls, sent, items } = shared();
    const both = Promise.all([calls.call(['a', 'b']), calls.call(['c']), calls.call([])]);
    await nextTurn();
    expect(items()).toEqual(['abc']);
    sent[0]?.answer();
    expect(await both).toEqual([['a!', 'b!'], ['c!'], []]);
  });

  it('wait for a request in flight while they are few, and start another when they are many', async () => {
    const { calls, sent, items } = shared();
    const all = ['a', 'b', 'c'].map(async (item) => {
      await calls.call([item]);
    });
    await nextTurn();
    all.push(...['d', 'e'].map(async (item) => void (await calls.call([item]))));
    await nextTurn();
    expect(items()).toEqual(['abc']);
    all.push(calls.call(['f']).then(() => {}));
    await nextTurn();
    expect(items()).toEqual(['abc', 'def']);
    all.push(...['g', 'h', 'i'].map(async (item) => void (await calls.call([item]))));
    await nextTurn();
    expect(items()).toEqual(['abc', 'def']);
    sent[1]?.answer();
    await nextTurn();
    await nextTurn();
    expect(items()).toEqual(['abc', 'def', 'ghi']);
    for (const { answer } of sent) answer();
    await Promise.all(all);
  });

  it('start another request beside a slow one, even if they are few', async () => {
    const { calls, sent, items } = shared();
    const stuck = calls.call(['a']);
    await nextTurn();
    const other = calls.call(['b']);
    await nextTurn();
    expect(items()).toEqual(['a']);
    await expect.poll(items).toEqual(['a', 'b']);
    sent[1]?.answer();
    expect(await other).toEqual(['b!']);
    sent[0]?.answer();
    expect(await stuck).toEqual(['a!']);
  });

  it('are limited by number and by size; a larger item is sent alone', async () => {
    const byNumber = shared({ maxItems: 2 });
    void byNumber.calls.call(['a', 'b', 'c', 'd', 'e']);
    await nextTurn();
    expect(byNumber.items()).toEqual(['ab', 'cd']);
    const bySize = shared({ maxSize: 4 });
    void bySize.calls.call(['aa', 'bb', 'c', 'dddddd', 'e']);
    await nextTurn();
    expect(bySize.items()).toEqual(['aabb', 'c']);
    bySize.sent[0]?.answer();
    bySize.sent[1]?.answer();
    await nextTurn();
    await nextTurn();
    expect(bySize.items()).toEqual(['aabb', 'c', 'dddddd']);
  });

  it('fail with their request, and a call of several with the first that fails', async () => {
    const { calls, sent } = shared({ maxItems: 2 });
    const one = calls.call(['a', 'b', 'c', 'd', 'e']);
    const failure = expect(one).rejects.toThrow('broken');
    await nextTurn();
    sent[0]?.fail(new Error('broken'));
    sent[1]?.answer();
    await nextTurn();
    await nextTurn();
    sent[2]?.answer();
    await failure;
    const later = calls.call(['f']);
    await nextTurn();
    sent[3]?.answer();
    expect(await later).toEqual(['f!']);
  });

  it('fail when the engine does not answer, with those queued before; later ones are sent', async () => {
    const { calls, sent } = shared({ maxItems: 1 });
    const early = ['a', 'b', 'c', 'd', 'e'].map((item) => calls.call([item]).catch((error) => error.message));
    await nextTurn();
    expect(sent).toHaveLength(2);
    await sleep(2);
    const late = calls.call(['f']);
    sent[1]?.fail(new Unavailable('nobody'));
    sent[0]?.fail(new Unavailable('nobody'));
    expect(await Promise.all(early)).toEqual(Array(5).fill('nobody'));
    await nextTurn();
    sent[2]?.answer();
    expect(await late).toEqual(['f!']);
  });

  it('are refused while the queue is full, and accepted afterwards', async () => {
    const { calls, sent } = shared({ maxItems: 1, maxQueueSize: 4 });
    const taken = [calls.call(['a'])];
    await nextTurn();
    taken.push(calls.call(['bb']), calls.call(['cc']));
    await expect(calls.call(['d'])).rejects.toThrow(Overloaded);
    for (let n = 0; n < taken.length; n++) {
      sent[n]?.answer();
      await nextTurn();
      await nextTurn();
    }
    expect((await Promise.all(taken)).flat()).toEqual(['a!', 'bb!', 'cc!']);
    const last = calls.call(['gggggg']);
    await nextTurn();
    sent.at(-1)?.answer();
    expect(await last).toEqual(['gggggg!']);
  });
});
