import { expect, it } from 'vitest';
import { funnelStepsOf } from './funnel-steps.ts';

it('adds up, from received to delivered', () => {
  const steps = funnelStepsOf({
    received: 120,
    duplicate: 5,
    rejected: 10,
    accepted: 103,
    warned: 3,
    matched: 60,
    filtered: 40,
    passed: 20,
    transformed: 30,
    dropped: 6,
    failed: 3,
    created: 50,
    redriven: 4,
    delivered_first: 40,
    delivered_later: 5,
    dead: 7,
    reasons: [
      { measure: 'rejected', reason: 'c/type', count: 3 },
      { measure: 'rejected', reason: 'c/required', count: 7 },
      { measure: 'redriven', reason: 'rule', count: 1 },
      { measure: 'redriven', reason: 'delivery', count: 3 },
      { measure: 'dead', reason: 'destination', count: 4 },
      { measure: 'dead', reason: 'transformation', count: 3 },
    ],
  });
  expect(steps.map(({ title, count, underWay }) => `${title} ${count}, ${underWay} under way`)).toEqual([
    'Received 120, 0 under way',
    'Accepted 103, 2 under way',
    'Taken by a rule 60, 0 under way',
    'Transformed 50, 2 under way',
    'Delivered 45, 4 under way',
  ]);
  expect(steps[1]?.left).toEqual([
    {
      measure: 'rejected',
      count: 10,
      reasons: [
        { reason: 'c/required', count: 7 },
        { reason: 'c/type', count: 3 },
      ],
    },
  ]);
  expect(steps[3]?.left.map(({ measure }) => measure)).toEqual(['dropped', 'failed']);
});

it('is all zeros where nothing came', () => {
  const steps = funnelStepsOf({});
  expect(steps.map(({ count, underWay, left, notes }) => [count, underWay, left, notes])).toEqual(
    steps.map(() => [0, 0, [], []]),
  );
});
