import { describe, expect, it } from 'vitest';
import { TurnQueue } from './turn-queue.ts';

function setUp(...names: readonly string[]) {
  const queue = new TurnQueue<{ readonly name: string }>();
  const items = names.map((name) => ({ name }));
  for (const item of items) queue.add(item.name.slice(0, 1), item);
  return {
    queue,
    items,
    take: (mayHaveTurn?: (owner: string) => boolean) => queue.take(mayHaveTurn)?.item.name,
  };
}

describe('a queue of owners in turn', () => {
  it('leaves an owner that may have no turn where it is', () => {
    const { take } = setUp('a1', 'b1', 'b2');
    expect([take((owner) => owner !== 'a'), take(() => false), take(), take()]).toEqual([
      'b1',
      undefined,
      'a1',
      'b2',
    ]);
  });

  it('removes an item once, and all of them', () => {
    const { queue, items, take } = setUp('a1', 'b1', 'b2');
    const [first] = items;
    expect(first && [queue.remove('a', first), queue.remove('a', first)]).toEqual([true, false]);
    expect([queue.size, queue.sizeOf('b')]).toEqual([2, 2]);
    expect(queue.clear()).toEqual(items.slice(1));
    expect(take()).toBeUndefined();
  });
});
