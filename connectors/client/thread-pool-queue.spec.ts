import { expect, it } from 'vitest';
import { ThreadPoolQueue } from './thread-pool-queue.ts';

const wanted = () => true;

function played() {
  const turns = new ThreadPoolQueue();
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const take = (name: string, isWanted = wanted) =>
    turns.take(name.slice(0, 1), isWanted, () => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
  const endOne = async () => {
    ends.shift()?.();
    for (let n = 0; n < 8; n++) await undefined;
  };
  return { begun, take, endOne };
}

it('the queue runs one task at a time, and a workspace with many tasks delays another by one task', async () => {
  const { begun, take, endOne } = played();
  const all = [take('a1'), take('a2'), take('a3'), take('b1'), take('c1'), take('b2')];
  await undefined;
  for (let n = 0; n < 6; n++) {
    expect(begun).toHaveLength(n + 1);
    await endOne();
  }
  await Promise.all(all);
  expect(begun).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2']);
});

it('the queue skips cancelled tasks, and continues after a failed one', async () => {
  const turns = new ThreadPoolQueue();
  let isWanted = true;
  const first = turns.take('a', wanted, async () => {
    isWanted = false;
    throw new Error('failed');
  });
  const left = turns.take(
    'b',
    () => isWanted,
    async () => 'done',
  );
  const last = turns.take('c', wanted, async () => 'done');
  await expect(first).rejects.toThrow('failed');
  await expect(left).rejects.toMatchObject({ code: 'stopped' });
  expect(await last).toBe('done');
  expect(await turns.take('a', wanted, async () => 'again')).toBe('again');
});
