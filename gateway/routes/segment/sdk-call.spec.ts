import { expect, it } from 'vitest';
import { bytesOf, isTooLarge } from './event-item.ts';

it.each([
  ['nothing, however many calls', {}, 2_500, false],
  ['as much as an event may have', { context: { a: 'x'.repeat(92) } }, 1, false],
  ['more than an event may have', { context: { a: 'x'.repeat(93) } }, 1, true],
  ['more than that in UTF-8', { context: { a: 'ü'.repeat(92) } }, 1, true],
  [
    'more in all its parts together',
    { integrations: { a: 'x'.repeat(50) }, others: { b: 'x'.repeat(50) } },
    1,
    true,
  ],
  ['as much as a body may have, said by each call', { others: { a: 'x'.repeat(92) } }, 10, false],
  ['more than a body may have, said by each call', { others: { a: 'x'.repeat(92) } }, 11, true],
])('the fields beside the calls of a batch are %s', (_, frame, calls, tooLarge) => {
  expect(isTooLarge(bytesOf(frame), calls, { eventBytes: 100, bodyBytes: 1_000 })).toBe(tooLarge);
});
