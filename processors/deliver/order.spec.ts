import type { DeliveryResult } from '@tributary/core';
import { expect, it } from 'vitest';
import { DOWN, delivery, OK, setUp, taskOf, turn } from './deliveries.fixture.ts';
import { DivertedSubjects, FOLLOWED_MS } from './diverted-deliveries.ts';

/** A destination whose requests hang until the test ends one, and deliveries such as `ada-1`, of the subject `ada`. */
function setUpSubjects(maxConcurrency: number, size = 1) {
  const pending = new Map<string, (result: DeliveryResult) => void>();
  const set = setUp(({ id }) => new Promise((resolve) => pending.set(id, resolve)), {
    maxConcurrency,
    size: () => size,
  });
  const task = (id: string) => {
    const one = delivery(id);
    return taskOf({ ...one, event: { ...one.event, user_id: id.split('-')[0] ?? id } });
  };
  return {
    ...set,
    quick: (id: string) => set.sendQuickly(task(id)),
    slow: (id: string) => set.sendTask(task(id)),
    requests: () => set.calls.map(({ ids }) => ids.join(' ')),
    async end(id: string, result = OK) {
      pending.get(id)?.(result);
      await turn();
    },
  };
}

it('two requests of one subject at a time arrived in either order: the second begins once the first has ended', async () => {
  const { quick, requests, end } = setUpSubjects(3);
  for (const id of ['ada-1', 'ada-2', 'bob-1', 'ada-3', 'cem-1']) void quick(id);
  await turn();
  expect(requests()).toEqual(['ada-1', 'bob-1', 'cem-1']);
  await end('bob-1');
  expect(requests()).toHaveLength(3);
  await end('ada-1');
  expect(requests().slice(3)).toEqual(['ada-2']);
  await end('ada-2', DOWN);
  expect(requests().slice(4)).toEqual(['ada-3']);
});

it('a batch carries deliveries of one subject that follow each other, and none of one that is under way', async () => {
  const { quick, requests, end } = setUpSubjects(2, 3);
  for (const id of ['ada-1', 'ada-2', 'bob-1', 'ada-3', 'cem-1', 'bob-2', 'dan-1', 'dan-2']) void quick(id);
  await turn();
  expect(requests()).toEqual(['ada-1 ada-2 bob-1', 'cem-1 dan-1 dan-2']);
  for (const id of ['ada-1', 'ada-2', 'bob-1']) await end(id);
  expect(requests().slice(2)).toEqual(['ada-3 bob-2']);
});

it('a delivery overtook an earlier one of its subject that had left for the slow queue: it follows it there', async () => {
  const { quick, slow, requests, end, time, registry } = setUpSubjects(1);
  void quick('bob-1');
  await turn();
  const first = quick('ada-1');
  time.elapsed += 400;
  const second = quick('ada-2');
  time.elapsed += 101;
  expect((await first).kind).toBe('slow');
  await end('bob-1');
  expect((await second).kind).toBe('slow');
  expect(requests()).toEqual(['bob-1']);
  expect(registry.diverted.has('destination:ada')).toBe(true);
  expect(registry.diverted.has('destination:bob')).toBe(false);
  void slow('ada-1');
  void slow('ada-2');
  await turn();
  await end('ada-1');
  await end('ada-2');
  expect(requests()).toEqual(['bob-1', 'ada-1', 'ada-2']);
});

it('deliveries follow until the slow stage has completed all earlier ones, or for a while where another process has it', () => {
  const time = { elapsed: 0 };
  const diverted = new DivertedSubjects(() => time.elapsed);
  diverted.add('a');
  diverted.add('a');
  diverted.add('b');
  diverted.completed('a');
  expect(diverted.has('a')).toBe(true);
  time.elapsed += FOLLOWED_MS - 1;
  diverted.add('b');
  diverted.completed('a');
  expect(diverted.has('a')).toBe(false);
  expect(diverted.has('b')).toBe(true);
  time.elapsed += 1;
  expect(diverted.has('b')).toBe(false);
});

it('a hiccup deferred the older half of a backlog and sent the newer half: all of it leaves for the slow queue', async () => {
  const { quick, time } = setUpSubjects(1);
  void quick('first-1');
  await turn();
  const queued = Array.from({ length: 60 }, (_, n) => quick(`u${n}-1`));
  await turn();
  time.elapsed += 501;
  const outcomes = await Promise.all(queued);
  expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['slow']));
});
