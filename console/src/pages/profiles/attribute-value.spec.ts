import { expect, it } from 'vitest';
import { kindOf, readValue, typedFormOf } from './attribute-value.ts';

it('is read in the form in which it was shown', () => {
  for (const value of ['', '01', 'null', 7, -0.5, true, false, [1, 'a'], { a: { b: null } }])
    expect(readValue(kindOf(value), typedFormOf(value))).toEqual({ value });
});

it('is refused where it does not match its type', () => {
  expect(readValue('number', ' ')).toHaveProperty('fault');
  expect(readValue('number', '1e999')).toHaveProperty('fault');
  expect(readValue('true or false', 'yes')).toHaveProperty('fault');
  expect(readValue('JSON', '{')).toHaveProperty('fault');
});

it('is never null, which removes an attribute', () => {
  expect(readValue('JSON', 'null')).toHaveProperty('fault');
});
