import { expect, it } from 'vitest';
import { noneFoundText } from './coverage.ts';

it('no event was said to match where the log was read in part', () => {
  expect(noneFoundText('event of this type', true)).toBe('No event of this type was found.');
  expect(noneFoundText('event of this type', false)).toMatch(
    /in the newest part of the log; there may be older ones/,
  );
});
