import { expect, it } from 'vitest';
import { deliveriesText, hiddenByStages, summaryOf } from './summary.ts';

const FOUR = { received: 4, accepted: 4, matched: 4, passed: 4, created: 4 };

it.each([
  [
    'some were sent twice',
    { ...FOUR, received: 6, duplicate: 2, delivered_first: 4 },
    true,
    '6 events received, 2 repeats left out, the others accepted; all 4 deliveries made of them arrived.',
  ],
  [
    'all arrived',
    { ...FOUR, delivered_first: 3, delivered_later: 1, retried: 2 },
    true,
    '4 events received, all accepted; all 4 deliveries made of them arrived.',
  ],
  ['nothing was received', {}, true, 'No event was received in this time.'],
  [
    'all are retried',
    { ...FOUR, retried: 8 },
    false,
    '4 events received, all accepted; deliveries: 0 % of 4 arrived, 4 are under way; after 8 retries.',
  ],
  [
    'all are deferred, or their destination is paused',
    { ...FOUR, retried: 4 },
    false,
    '4 events received, all accepted; deliveries: 0 % of 4 arrived, 4 are under way; after 4 retries.',
  ],
  [
    'a backlog is left',
    { ...FOUR, delivered_first: 3 },
    false,
    '4 events received, all accepted; deliveries: 75 % of 4 arrived, 1 is under way.',
  ],
  [
    'the stage of contracts stands still',
    { received: 9, accepted: 4 },
    false,
    '4 of 9 events accepted; no rule applied to them.',
  ],
  [
    'the stage of rules stands still',
    { received: 4, accepted: 4 },
    false,
    '4 events received, all accepted; no rule applied to them.',
  ],
  [
    'the stage of transformations stands still',
    { received: 4, accepted: 4, matched: 4 },
    false,
    '4 events received, all accepted; no delivery made of them.',
  ],
  [
    'the workspace is over a budget',
    {
      received: 4,
      accepted: 4,
      filtered: 4,
      dead: 4,
      reasons: [{ measure: 'filtered', reason: 'over_budget', count: 4 }],
    },
    false,
    '4 events received, all accepted; no delivery made of them; 4 given to no rule, over a budget of bytes.',
  ],
  [
    'dead ones were discarded',
    { ...FOUR, delivered_first: 2, dead: 2, reasons: [{ measure: 'dead', reason: 'destination', count: 2 }] },
    false,
    '4 events received, all accepted; deliveries: 50 % of 4 arrived, 2 are dead or discarded.',
  ],
  [
    'a dead one was redriven',
    {
      ...FOUR,
      delivered_first: 3,
      dead: 1,
      redriven: 1,
      delivered_later: 1,
      reasons: [{ measure: 'dead', reason: 'destination', count: 1 }],
    },
    true,
    '4 events received, all accepted; all 4 deliveries made of them arrived.',
  ],
  [
    'no destination takes them',
    { ...FOUR, unwanted: 4 },
    true,
    '4 events received, all accepted; no delivery made of them.',
  ],
] as const)('the overview said that what was sent arrived: %s', (_state, totals, isCalm, text) => {
  expect(summaryOf({ ...totals, reasons: 'reasons' in totals ? [...totals.reasons] : [] })).toEqual({
    isCalm,
    text,
  });
});

it.each([
  [{}, 'None was made'],
  [{ created: 2, unwanted: 2 }, 'No destination takes them'],
  [{ created: 4, retried: 8 }, '0 % of 4 arrived, 4 are under way'],
  [{ created: 100_000, delivered_first: 99_999 }, '> 99.9 % of 100,000 arrived, 1 is under way'],
])('the tile of deliveries names those that did not arrive: %j', (totals, text) => {
  expect(deliveriesText(totals)).toBe(text);
});

it('a stage that stood still left its events out of the numbers, and nothing on the overview said so', () => {
  const behind = ['validate', 'live', 'route', 'deliver.retry', 'history', 'funnel'].map((stage, n) => ({
    stage,
    seconds: 61 + n * 60,
  }));
  expect(hiddenByStages(behind)).toEqual([
    { stage: 'funnel', text: 'counts of the last 6 min are not shown here yet' },
    { stage: 'history', text: 'violations and dead deliveries of the last 5 min are not shown here yet' },
    { stage: 'validate', text: 'events of the last 1 min are not shown here yet' },
  ]);
});
