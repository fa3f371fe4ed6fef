import { Fenced, InvalidInput, Overloaded, Rewind, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { failureOf } from './failure.ts';

describe('failure', () => {
  it('is judged by the code of a typed error, never by a message', () => {
    expect(failureOf(new Unavailable('x'))).toBe('repeat');
    expect(failureOf(new Overloaded('x'))).toBe('repeat');
    expect(failureOf(new Rewind(3))).toBe('rewind');
    expect(failureOf(new Fenced('x'))).toBe('restart');
    expect(failureOf(new InvalidInput('x'))).toBe('throw');
    expect(failureOf(new Error('unavailable'))).toBe('throw');
    expect(failureOf({ code: 'unavailable' })).toBe('throw');
    expect(failureOf(undefined)).toBe('throw');
  });
});
