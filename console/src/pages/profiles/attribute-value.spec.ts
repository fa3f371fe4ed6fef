import { expect, it } from 'vitest';
import { kindOf, readValue, typedFormOf } from './attribute-value.ts';

it('is read as what it was shown as', () => {
  for (const value of ['', '01', 'null', 7, -0.5, true, false, [1, 'a'], { a: { b: null } }])
    expect(readValue(kindOf(value), typedFormOf(value))).toEqual({ value });
});

it('is refused where it is none of its kind', () => {
  expect(readValue('number', ' ')).toHaveProperty('fault');
  expect(readValue('number', '1e999')).toHaveProperty('fault');
  expect(readValue('true or false', 'yes')).toHaveProperty('fault');
  expect(readValue('JSON', '{')).toHaveProperty('fault');
});

it('is never null, which takes an attribute away', () => {
  expect(readValue('JSON', 'null')).toHaveProperty('fault');
});
