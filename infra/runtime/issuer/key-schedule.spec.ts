import { describe, expect, it } from 'vitest';
import {
  ASK_FIRST_AFTER_MS,
  beforeUse,
  FIRST_REST_MS,
  mayAskForUnknown,
  REFRESH_AFTER_MS,
  REST_MS,
} from './key-schedule.ts';

const NOW = 10 * ASK_FIRST_AFTER_MS;
const ago = (ms: number) => NOW - ms;

describe('before a key is looked up', () => {
  it.each([
    ['ask first', 'no keys were ever got', {}],
    ['use', 'they are young', { gotAt: ago(REFRESH_AFTER_MS - 1) }],
    ['ask beside', 'they are no longer young', { gotAt: ago(REFRESH_AFTER_MS) }],
    ['ask first', 'they are old: one may have been taken back', { gotAt: ago(ASK_FIRST_AFTER_MS) }],
    ['use', 'asking has just failed', { gotAt: ago(ASK_FIRST_AFTER_MS), failedAt: ago(REST_MS - 1) }],
    ['ask beside', 'asking failed before', { gotAt: ago(ASK_FIRST_AFTER_MS), failedAt: ago(REST_MS) }],
    ['ask beside', 'asking failed and they are young', { gotAt: ago(REST_MS), failedAt: ago(REST_MS) }],
    ['use', 'there are none and asking has just failed', { failedAt: ago(FIRST_REST_MS - 1) }],
    ['ask beside', 'there are none and asking failed a second ago', { failedAt: ago(FIRST_REST_MS) }],
    ['ask first', 'there are none and asking failed before', { failedAt: ago(REST_MS) }],
  ])('%s when %s', (step, _, history) => {
    expect(beforeUse(history, NOW)).toBe(step);
  });
});

it('asks for a key it does not know once in a while, and not right after a failure', () => {
  expect(mayAskForUnknown({ gotAt: ago(1) }, NOW)).toBe(true);
  expect(mayAskForUnknown({ gotAt: ago(1), askedForUnknownAt: ago(REST_MS - 1) }, NOW)).toBe(false);
  expect(mayAskForUnknown({ gotAt: ago(1), askedForUnknownAt: ago(REST_MS) }, NOW)).toBe(true);
  expect(mayAskForUnknown({ gotAt: ago(1), failedAt: ago(REST_MS - 1) }, NOW)).toBe(false);
});
