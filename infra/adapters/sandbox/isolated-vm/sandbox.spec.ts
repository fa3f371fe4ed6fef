import { describe, expect, it } from 'vitest';
import { FairQueue, Reputation } from './sandbox.ts';

describe('the reputation of owners', () => {
  it('quarantines an owner after harm, until it has done none for a while', () => {
    const reputation = new Reputation();
    expect(reputation.isQuarantined('a', 1)).toBe(false);
    reputation.recordHarm('a', 1_000);
    expect(reputation.isQuarantined('a', 30_999)).toBe(true);
    expect(reputation.isQuarantined('b', 1_000)).toBe(false);
    reputation.recordHarm('a', 20_000);
    expect(reputation.isQuarantined('a', 49_999)).toBe(true);
    expect(reputation.isQuarantined('a', 50_000)).toBe(false);
  });

  it('doubles the quarantine with each harm soon after the last one, up to ten minutes', () => {
    const reputation = new Reputation();
    let now = 0;
    const lengths = Array.from({ length: 7 }, () => {
      reputation.recordHarm('a', now);
      const from = now;
      while (reputation.isQuarantined('a', now)) now += 1_000;
      return (now - from) / 1_000;
    });
    expect(lengths).toEqual([30, 60, 120, 240, 480, 600, 600]);
    now += 600_000;
    reputation.recordHarm('a', now);
    expect(reputation.isQuarantined('a', now + 30_000)).toBe(false);
  });
});

function call(id: string, name: string, items: number, owner = `owner of ${id}`) {
  return { program: { id, owner }, name, items };
}

type Call = ReturnType<typeof call>;

function takeAll(queue: FairQueue<Call>): string {
  const taken: string[] = [];
  const next = (one: Call) => (one.items-- > 0 ? one.name : undefined);
  for (let turn = queue.take(next); turn !== undefined; turn = queue.take(next)) taken.push(turn.item);
  return taken.join('');
}

describe('FairQueue', () => {
  it('alternates between programs and keeps the order within one', () => {
    const queue = new FairQueue<Call>();
    queue.add(call('p', 'a', 3));
    queue.add(call('p', 'b', 2));
    queue.add(call('q', 'c', 2));
    expect(takeAll(queue)).toBe('acacabb');
  });

  it('alternates between owners, however many programs one has', () => {
    const queue = new FairQueue<Call>();
    for (const id of ['p', 'q', 'r']) queue.add(call(id, id, 2, 'many'));
    queue.add(call('s', 'x', 3, 'one'));
    expect(takeAll(queue)).toBe('pxqxrxpqr');
  });

  it('puts a resumed call before the others of its program, and only once', () => {
    const queue = new FairQueue<Call>();
    const first = call('p', 'a', 1);
    queue.add(call('p', 'b', 1));
    queue.resume(first);
    queue.resume(first);
    expect(takeAll(queue)).toBe('ab');
  });
});
