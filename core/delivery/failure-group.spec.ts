import { describe, expect, it } from 'vitest';
import { failureGroupOf, kindOfFailure } from './failure-group.ts';

describe('the kind of a failure', () => {
  it.each([
    ['answered 503', 503, 'answered 503'],
    ['expired; last failure: answered 503', 503, 'expired; last failure: answered 503'],
    ['answered 503', undefined, 'answered …'],
    ['order 4711 of "Ada Lovelace" is unknown', undefined, 'order … of … is unknown'],
    [
      "TypeError: Cannot read properties of undefined (reading 'plan')",
      undefined,
      'TypeError: Cannot read properties of undefined (reading …)',
    ],
    ['user 0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70 has no account', undefined, 'user … has no account'],
    ['no contact ada@example.com in list 7', undefined, 'no contact … in list …'],
    ['network error (UND_ERR_CONNECT_TIMEOUT)', undefined, 'network error (UND_ERR_CONNECT_TIMEOUT)'],
    ['trace 5f3a9c1b2d refused', undefined, 'trace … refused'],
    ['the defaced facade', undefined, 'the defaced facade'],
    ['', undefined, ''],
  ])('%j with status %s is %j', (reason, status, kind) => {
    expect(kindOfFailure(reason, status)).toBe(kind);
  });

  it('is bounded, and stays the same', () => {
    const kind = kindOfFailure(`x${' 12 y'.repeat(10_000)}`);
    expect(kind.length).toBe(160);
    expect(kindOfFailure(kind)).toBe(kind);
  });
});

describe('the group of an outcome', () => {
  const outcome = (changes: object) => ({
    delivery: {
      destination_id: 'd',
      rule_id: 'r',
      attempts: [
        { outcome: 'retry', status: 500, at: '', duration_ms: 1 },
        { outcome: 'retry', status: 503, at: '', duration_ms: 1 },
      ],
    },
    status: 'dead',
    cause: 'expired',
    reason: 'expired; last failure: answered 503',
    at: '',
    ...changes,
  });

  it('names the last answer, the cause, the destination and the rule', () => {
    expect(failureGroupOf(outcome({}))).toEqual({
      status: 'dead',
      destination_id: 'd',
      rule_id: 'r',
      cause: 'expired',
      response_status: '503',
      failure: 'expired; last failure: answered 503',
    });
    expect(failureGroupOf(outcome({ status: 'retrying', cause: undefined }))).toMatchObject({
      status: 'retrying',
      cause: '',
    });
  });

  it.each(['delivered', 'discarded'])('a delivery that is %s has no group', (status) => {
    expect(failureGroupOf(outcome({ status }))).toBeUndefined();
  });
});
