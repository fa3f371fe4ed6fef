import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Destination, Rule } from '../catalog/entities.ts';
import { type CanonicalEvent, ENVIRONMENTS, EVENT_TYPES } from '../event/event.ts';
import { FilterBudget } from './filter-evaluator.ts';
import { destinationMismatch, isUndecided, mismatchOf, subjectOfRules } from './match.ts';

const kept = { id: 'r1', version: 1, created_at: '', updated_at: '', workspace_id: 'w1', created_by: 'a1' };
const names = ['', 'order', 'view'];
const subject = fc
  .record({
    type: fc.constantFrom(...EVENT_TYPES),
    name: fc.constantFrom(...names),
    environment: fc.constantFrom(...ENVIRONMENTS),
  })
  .map(
    ({ type, name, environment }): CanonicalEvent => ({
      message_id: 'm',
      type,
      ...(type === 'track' ? { event: name } : type === 'page' ? { name } : {}),
      user_id: 'u',
      timestamp: '',
      received_at: '',
      environment,
      workspace_id: 'w1',
    }),
  );
const rule = fc
  .record({
    event_types: fc.subarray([...EVENT_TYPES]),
    event_names: fc.subarray(names),
    environments: fc.subarray([...ENVIRONMENTS]),
    enabled: fc.boolean(),
  })
  .map((fields): Rule => ({ ...fields, ...kept, name: 'r', destination_id: 'd1', transformation_id: null }));
const becauseOf = (each: Rule, event: CanonicalEvent) => mismatchOf(each, subjectOfRules(event))?.because;
const takes = (each: Rule, event: CanonicalEvent) => becauseOf(each, event) === undefined;

describe('mismatchOf', () => {
  it('accepts nothing while disabled, and states so first', () => {
    fc.assert(
      fc.property(rule, subject, (each, event) => {
        expect(becauseOf({ ...each, enabled: false }, event)).toBe('disabled');
      }),
    );
  });

  it('accepts everything of its environments when it lists no types and no names', () => {
    fc.assert(
      fc.property(rule, subject, (each, event) => {
        const open = { ...each, enabled: true, event_types: [], event_names: [] };
        expect(takes(open, event)).toBe(each.environments.includes(event.environment));
      }),
    );
  });

  it('accepts events that match both its types and its names', () => {
    fc.assert(
      fc.property(rule, subject, (each, event) => {
        const open = { ...each, enabled: true };
        const byType = takes({ ...open, event_names: [] }, event);
        const byName = takes({ ...open, event_types: [] }, event);
        expect(takes(open, event)).toBe(byType && byName);
      }),
    );
  });

  it('accepts of those the ones that its filter passes, and distinguishes a filter that fails from one that is false', () => {
    fc.assert(
      fc.property(rule, subject, (each, event) => {
        const because = (filter: string) => becauseOf({ ...each, filter }, event);
        const without = becauseOf(each, event);
        expect(because('event.user_id == "u"')).toBe(without);
        expect(because('event.user_id == "x"')).toBe(without ?? 'filter');
        expect(because('event.properties.x == 1')).toBe(without ?? 'filter_failed');
      }),
    );
  });
});

describe('the rules of a workspace', () => {
  const open: Omit<Rule, 'id'> = {
    ...kept,
    name: 'r',
    event_types: [],
    event_names: [],
    environments: [...ENVIRONMENTS],
    destination_id: 'd1',
    transformation_id: null,
    enabled: true,
  };
  const listing: CanonicalEvent = {
    message_id: 'm',
    type: 'track',
    event: 'order',
    user_id: 'u',
    properties: { list: Array.from({ length: 800 }, (_, n) => n) },
    timestamp: '',
    received_at: '',
    environment: 'production',
    workspace_id: 'w1',
  };
  const costly = 'event.properties.list.exists(x, x == -1)';

  it('evaluates filters in the order of the rules until their common budget is spent, and only filters', () => {
    const rules = Array.from({ length: 300 }, (_, n): Rule => ({ ...open, id: `r${n}`, filter: costly }));
    const plain: Rule = { ...open, id: 'plain' };
    const otherName: Rule = { ...open, id: 'other', event_names: ['view'], filter: costly };
    const matched = () => {
      const budget = new FilterBudget();
      return [...rules, plain, otherName].map((each) => mismatchOf(each, subjectOfRules(listing), budget));
    };
    const matches = matched();
    const because = matches.map((mismatch) => mismatch?.because);
    const first = because.indexOf('filter_not_evaluated');
    expect(first).toBeGreaterThan(3);
    expect(because.slice(0, first)).toEqual(Array(first).fill('filter'));
    expect(because.slice(first, 300)).toEqual(Array(300 - first).fill('filter_not_evaluated'));
    expect(because.slice(300)).toEqual([undefined, 'event_name']);
    expect(matched()).toEqual(matches);
    expect(matches.filter((mismatch) => mismatch && isUndecided(mismatch))).toHaveLength(300 - first);
  });
});

describe('destinationMismatch', () => {
  const destination: Destination = { ...kept, name: 'd', type: 'webhook', settings: {}, enabled: true };

  it('is open to all environments unless it names some', () => {
    expect(destinationMismatch(destination, { environment: 'development' })).toBeUndefined();
    const narrow = { ...destination, environments: ['production'] } as const;
    expect(destinationMismatch(narrow, { environment: 'production' })).toBeUndefined();
    expect(destinationMismatch(narrow, { environment: 'development' })).toEqual({
      because: 'destination_environment',
    });
  });

  it('is closed while disabled and when it is gone', () => {
    for (const closed of [undefined, { ...destination, enabled: false }])
      expect(destinationMismatch(closed, { environment: 'production' })).toEqual({
        because: 'destination_disabled',
      });
  });
});
