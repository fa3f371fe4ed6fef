import { describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';

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

  it('removes the calls of an owner', () => {
    const queue = new FairQueue<Call>();
    queue.add(call('p', 'a', 1));
    queue.add(call('q', 'b', 1));
    expect(queue.drain((owner) => owner === 'owner of p').map(({ name }) => name)).toEqual(['a']);
    expect(takeAll(queue)).toBe('b');
  });

  it('puts a resumed call before the others of its program, and only once', () => {
    const queue = new FairQueue<Call>();
    const first = call('p', 'a', 1);
    queue.add(call('p', 'b', 1));
    queue.resume(first);
    queue.resume(first);
    expect(takeAll(queue)).toBe('ab');
  });

  it('removes all calls by default', () => {
    const queue = new FairQueue<Call>();
    queue.add(call('p', 'a', 1));
    queue.add(call('q', 'b', 1));
    expect(queue.drain().map(({ name }) => name)).toEqual(['a', 'b']);
    expect(takeAll(queue)).toBe('');
  });
});
