import { expect, it } from 'vitest';
import { Dice } from './dice.ts';
import { drawSchedule, GATEWAYS, PROCESSORS } from './schedule.ts';

const options = {
  kills: 3,
  pauses: 2,
  joins: 2,
  kafkaRestarts: ['stop', 'kill'],
  sessionTimeoutMs: 2_000,
} as const;

it('is the same for the same seed, and another for another', () => {
  expect(drawSchedule(options, new Dice(7))).toEqual(drawSchedule(options, new Dice(7)));
  expect(drawSchedule(options, new Dice(7))).not.toEqual(drawSchedule(options, new Dice(8)));
});

it.each([1, 2, 3, 4, 5])('does everything that was asked for, in order (seed %i)', (seed) => {
  const troubles = drawSchedule(options, new Dice(seed));
  expect(troubles.map(({ at }) => at)).toEqual(troubles.map(({ at }) => at).sort((a, b) => a - b));
  for (const name of [...GATEWAYS, ...PROCESSORS]) {
    const kills = troubles.filter((trouble) => trouble.kind === 'kill' && trouble.process === name);
    expect(kills.length).toBeGreaterThanOrEqual(3);
  }
  const order = troubles.filter(({ kind }) => kind === 'join' || kind === 'leave').map(({ kind }) => kind);
  expect(order).toEqual(['join', 'leave', 'join', 'leave']);
  const pauses = troubles.filter((trouble) => trouble.kind === 'pause');
  expect(pauses).toHaveLength(2);
  for (const { forMs } of pauses) expect(forMs).toBeGreaterThan(options.sessionTimeoutMs);
  const restarts = troubles.filter((trouble) => trouble.kind === 'restart');
  expect(restarts.filter(({ engine }) => engine === 'kafka').map(({ how }) => how)).toEqual(['stop', 'kill']);
  expect(restarts.filter(({ engine }) => engine === 'redis')).toHaveLength(1);
});
