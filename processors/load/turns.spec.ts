import { expect, it } from 'vitest';
import { LoadTurns } from './turns.ts';

it('bounds what runs at a time, and organizations take turns, also after a failure', async () => {
  const turns = new LoadTurns(1);
  const ran: string[] = [];
  const work = (name: string) =>
    turns.run(name.slice(0, 1), async () => {
      ran.push(name);
      await Promise.resolve();
      if (name === 'a1') throw new Error('failed');
    });
  const all = ['a1', 'a2', 'a3', 'b1', 'b2'].map(work);
  expect(ran).toEqual(['a1']);
  expect((await Promise.allSettled(all)).map(({ status }) => status)).toEqual([
    'rejected',
    'fulfilled',
    'fulfilled',
    'fulfilled',
    'fulfilled',
  ]);
  expect(ran).toEqual(['a1', 'a2', 'b1', 'a3', 'b2']);
});
