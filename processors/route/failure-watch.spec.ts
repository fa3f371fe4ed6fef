import type { CanonicalEvent } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import {
  afterRuns,
  DEFAULT_FAILURE_LIMITS,
  isFailing,
  messageWithoutValues,
  NO_RUNS,
  type RunFailure,
} from './failure-watch.ts';

const LIMITS = DEFAULT_FAILURE_LIMITS;

function failingAfter(...batches: readonly (readonly RunFailure[])[]): boolean {
  const rate = batches.reduce((before, batch) => afterRuns(before, batch, LIMITS), NO_RUNS);
  return isFailing(rate, LIMITS);
}

function times(count: number, outcome: RunFailure): readonly RunFailure[] {
  return Array.from({ length: count }, () => outcome);
}

describe('failure rate', () => {
  it('is unknown before there were enough runs', () => {
    expect(failingAfter(times(19, 'threw'))).toBe(false);
    expect(failingAfter(times(20, 'threw'))).toBe(true);
  });

  it('needs more than half of the window', () => {
    expect(failingAfter(times(50, undefined), times(50, 'threw'))).toBe(false);
    expect(failingAfter(times(49, undefined), times(51, 'threw'))).toBe(true);
  });

  it('forgets runs older than the window', () => {
    expect(failingAfter(times(60, 'threw'), times(100, undefined))).toBe(false);
    expect(failingAfter(times(1_000, undefined), times(60, 'output'))).toBe(true);
  });

  it('needs five timeouts or memory kills in a row, also over batches', () => {
    expect(failingAfter(times(3, 'timeout'), times(1, 'memory'))).toBe(false);
    expect(failingAfter(times(3, 'timeout'), times(2, 'memory'))).toBe(true);
    expect(failingAfter(times(4, 'timeout'), [undefined], times(4, 'timeout'))).toBe(false);
    expect(failingAfter(times(4, 'timeout'), ['threw'], times(4, 'timeout'))).toBe(false);
  });

  it('five kills in the middle of a batch are seen although others of it went well', () => {
    expect(failingAfter([...times(5, 'timeout'), ...times(5, undefined)])).toBe(true);
  });
});

const EVENT: CanonicalEvent = {
  message_id: 'm1',
  type: 'identify',
  user_id: 'user-4711',
  traits: { email: 'ada@example.com', cards: [{ number: 4_111_111_111_111_111 }], plan: 'pro' },
  timestamp: '2026-01-01T00:00:00.000Z',
  received_at: '2026-01-01T00:00:01.000Z',
  environment: 'production',
  workspace_id: 'w1',
};

it.each([
  ['no such user user-4711', 'no such user ***'],
  ['bad address ada@example.com!', 'bad address ***!'],
  ['card 4111111111111111 of ada@example.com', 'card *** of ***'],
  [
    `Unexpected token 'a', "ada@examp"... is not valid JSON`,
    `Unexpected token 'a', "***"... is not valid JSON`,
  ],
  [
    "Cannot read properties of undefined (reading 'total')",
    "Cannot read properties of undefined (reading 'total')",
  ],
  ['identify is not taken in production', 'identify is not taken in production'],
  ['the plan pro is over', 'the plan pro is over'],
  ['', ''],
])('%j becomes %j', (message, shown) => {
  expect(messageWithoutValues(message, EVENT)).toBe(shown);
});
