import { expect, it } from 'vitest';
import { Turns } from './turns.ts';

it('lets so many at a time, the next as one ends, also when it fails', async () => {
  const turns = new Turns(2);
  const gates = Array.from({ length: 4 }, () => Promise.withResolvers<void>());
  const begun: number[] = [];
  const taken = gates.map(({ promise }, n) =>
    turns.take(async () => {
      begun.push(n);
      await promise;
      return n;
    }),
  );
  await Promise.resolve();
  expect(begun).toEqual([0, 1]);
  gates[1]?.reject(new Error('failed'));
  await expect(taken[1]).rejects.toThrow('failed');
  gates[0]?.resolve();
  expect(await taken[0]).toBe(0);
  gates[2]?.resolve();
  gates[3]?.resolve();
  expect(await Promise.all([taken[2], taken[3]])).toEqual([2, 3]);
  expect(begun).toEqual([0, 1, 2, 3]);
});
