import { Type } from 'typebox';
import { describe, expect, it } from 'vitest';
import { nullable, oneOf } from './schemas.ts';

describe('nullable', () => {
  it('adds null to the type and to the words', () => {
    expect(nullable(Type.String({ minLength: 1 }))).toEqual({ type: ['string', 'null'], minLength: 1 });
    expect(nullable(oneOf(['a', 'b']))).toEqual({ type: ['string', 'null'], enum: ['a', 'b', null] });
  });

  it('refuses a schema that it could not make nullable', () => {
    expect(() => nullable(Type.Union([Type.String(), Type.Integer()]))).toThrow('one type');
  });
});
