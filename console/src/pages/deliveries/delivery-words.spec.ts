import { expect, it } from 'vitest';
import { noAttemptText, summaryOf } from './delivery-words.ts';

it('the sum of the largest groups was said to be all', () => {
  const groups = [
    { status: 'dead', deliveries: 1_200 },
    { status: 'retrying', deliveries: 4 },
  ] as const;
  expect(summaryOf(groups, false)).toBe('1,200 dead and 4 retrying, in 2 groups.');
  expect(summaryOf(groups, true)).toBe('1,200 dead and 4 retrying, in the 2 largest groups.');
});

it.each([
  [{ status: 'retrying', cause: null }, 'Nothing was sent to the destination yet.'],
  [{ status: 'delivered', cause: null }, 'Delivered at the first attempt, of which no record is kept.'],
  [{ status: 'dead', cause: 'transformation' }, 'Nothing was sent to the destination.'],
  [{ status: 'unwanted', cause: null }, 'Nothing was sent to the destination.'],
] as const)('a delivery without an attempt was said to be sent later: %j', (delivery, text) => {
  expect(noAttemptText(delivery)).toBe(text);
});
