import { expect, it } from 'vitest';
import { nextStep } from './log-copy.ts';

const source = { first: 100, end: 250 };

it.each([
  ['fills what retention dropped', { first: 0, end: 0 }, { do: 'fill', from: 0, to: 100 }],
  ['goes on filling', { first: 0, end: 60 }, { do: 'fill', from: 60, to: 100 }],
  ['copies records under their offsets', { first: 0, end: 100 }, { do: 'append', from: 100 }],
  ['goes on copying', { first: 0, end: 180 }, { do: 'append', from: 180 }],
  ['drops the filler once all is there', { first: 0, end: 250 }, { do: 'drop', below: 100 }],
  ['is done', { first: 100, end: 250 }, { do: 'nothing' }],
] as const)('%s', (_, target, step) => {
  expect(nextStep(source, target)).toEqual(step);
});

it('has nothing to do for a partition that never had records', () => {
  expect(nextStep({ first: 0, end: 0 }, { first: 0, end: 0 })).toEqual({ do: 'nothing' });
});

it('makes a partition whose records were all removed begin at its end', () => {
  const empty = { first: 40, end: 40 };
  expect(nextStep(empty, { first: 0, end: 0 })).toEqual({ do: 'fill', from: 0, to: 40 });
  expect(nextStep(empty, { first: 0, end: 40 })).toEqual({ do: 'drop', below: 40 });
  expect(nextStep(empty, { first: 40, end: 40 })).toEqual({ do: 'nothing' });
});
