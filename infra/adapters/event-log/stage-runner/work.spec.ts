import { Fenced, InvalidInput, Overloaded, Rewind, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { failureOf } from './work.ts';

describe('the failure of a stage', () => {
  it('follows from the code of a typed error, never from a message', () => {
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
