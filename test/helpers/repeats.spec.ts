import { expect, test } from 'vitest';
import type { Brought } from './recorder.ts';
import { repeatsOf } from './repeats.ts';

const brought = (id: string, at: number): Brought => ({ id, messageId: id, attempt: 1, callId: id, at });
const KILLS = [
  { at: 100, startedAt: 110 },
  { at: 200, startedAt: 210 },
];

test('a repeated event is explained by the kill before it, with its age', () => {
  const calls = [brought('a', 90), brought('b', 95), brought('a', 120), brought('c', 150), brought('c', 220)];
  expect(repeatsOf(calls, KILLS)).toEqual({
    byKill: [[{ id: 'a', beforeMs: 10 }], [{ id: 'c', beforeMs: 50 }]],
    unexplained: [],
  });
});

test('reports each repetition of an event delivered three times', () => {
  const calls = [brought('a', 90), brought('a', 190), brought('a', 290)];
  expect(repeatsOf(calls, KILLS).byKill.map(({ length }) => length)).toEqual([1, 1]);
});

test('a repeated event without a kill is a fault', () => {
  expect(repeatsOf([brought('a', 120), brought('a', 130)], KILLS).unexplained).toEqual(['a']);
});

test('a call of the killed process that is read late is one of before the kill', () => {
  expect(repeatsOf([brought('a', 105), brought('a', 120)], KILLS)).toEqual({
    byKill: [[{ id: 'a', beforeMs: 0 }], []],
    unexplained: [],
  });
});
