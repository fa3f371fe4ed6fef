import { expect, it } from 'vitest';
import { newReplayValues, replayBodyOf, replayErrorsOf, summaryOf } from './replay-values.ts';

const NOW = Date.parse('2026-01-02T12:00:00.000Z');
const values = newReplayValues({ rule: '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70' }, NOW);

it('begins with the last hour, until now', () => {
  expect(replayBodyOf(values)).toMatchObject({
    since: '2026-01-02T11:00:00.000Z',
    until: null,
    rule_id: values.rule_id,
    new_ids: false,
    events_per_second: 100,
  });
  expect(replayErrorsOf(values, NOW)).toEqual({});
});

it('sends no rule and no choice of ids for rejected events', () => {
  expect(replayBodyOf({ ...values, outcome: 'rejected', new_ids: true })).toMatchObject({
    outcome: 'rejected',
    rule_id: null,
    new_ids: null,
  });
});

it('finds times that make no range', () => {
  const at = (since: string, until: string) => Object.keys(replayErrorsOf({ ...values, since, until }, NOW));
  expect(at('', '')).toEqual(['since']);
  expect(at('2026-01-02T09:00Z', '2026-01-02T08:00Z')).toEqual(['since']);
  expect(at('2026-01-02T09:00Z', '2026-01-03T09:00Z')).toEqual(['until']);
});

it('states what it will do', () => {
  expect(summaryOf({ ...values, event_names: ['Order'] }, 'CRM')).toBe(
    'Accepted events ("Order") are delivered once more, for the rule "CRM" alone. Destinations receive the original ids, so those that recognize them drop repeats.',
  );
  expect(summaryOf({ ...values, outcome: 'rejected' }, undefined)).toContain('evaluated again');
});
