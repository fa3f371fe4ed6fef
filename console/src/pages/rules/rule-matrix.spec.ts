import { describe, expect, it } from 'vitest';
import { cellOf, eventRowsOf, isNamed } from './rule-matrix.ts';
import { type Rule, selectionOf, selects } from './rule-selection.ts';

const rule = (change: Partial<Rule> = {}): Rule => ({
  id: 'r',
  workspace_id: 'w',
  name: 'Rule',
  destination_id: 'd',
  event_types: [],
  event_names: [],
  environments: ['production'],
  transformation_id: null,
  filter: null,
  enabled: true,
  version: 1,
  created_by: 'a',
  created_at: '2026-01-01T00:00:00.000Z',
  updated_at: '2026-01-01T00:00:00.000Z',
  ...change,
});

describe('eventRowsOf', () => {
  it('adds up hours, the most frequent first, and ends with names that only rules know', () => {
    const volume = [
      { event_type: 'track', event_name: 'A', event_count: 1 },
      { event_type: 'identify', event_name: '', event_count: 5 },
      { event_type: 'track', event_name: 'A', event_count: 8 },
      { event_type: 'page', event_name: 'Home', event_count: 2 },
    ] as const;
    const rules = [
      rule({ event_names: ['A', 'Home', 'Gone'] }),
      rule({ event_types: ['page', 'identify'], event_names: ['Start'] }),
    ];
    expect(eventRowsOf(volume, rules)).toEqual([
      { type: 'track', name: 'A', events: 9 },
      { type: 'identify', name: '', events: 5 },
      { type: 'page', name: 'Home', events: 2 },
      { type: 'page', name: 'Start', events: 0 },
      { type: 'track', name: 'Gone', events: 0 },
    ]);
  });

  it('makes rows of 10,000 names in one go', () => {
    const volume = Array.from({ length: 10_000 }, (_, index) => ({
      event_type: 'track' as const,
      event_name: `Event ${index}`,
      event_count: 1,
    }));
    expect(eventRowsOf(volume, [])).toHaveLength(10_000);
  });
});

describe('cellOf', () => {
  const order = { type: 'track', name: 'Order' } as const;
  const states = (...rules: readonly Rule[]) => cellOf(rules, order, 'production').state;

  it('states whether all, some or none of such events are delivered', () => {
    expect(states()).toBe('none');
    expect(states(rule())).toBe('all');
    expect(states(rule({ filter: 'true' }))).toBe('some');
    expect(states(rule({ filter: 'true' }), rule({ event_types: ['track'] }))).toBe('all');
    expect(states(rule({ enabled: false }))).toBe('off');
    expect(states(rule({ enabled: false }), rule({ filter: 'true' }))).toBe('some');
    expect(states(rule({ environments: ['development'] }))).toBe('none');
  });
});

describe('selects', () => {
  it('as the server does: by environment, type and name', () => {
    const identify = { type: 'identify', name: '' } as const;
    const page = { type: 'page', name: 'Home' } as const;
    expect(selects(rule(), identify, 'production')).toBe(true);
    expect(selects(rule(), identify, 'development')).toBe(false);
    expect(selects(rule({ event_names: ['Home'] }), page, 'production')).toBe(true);
    expect(selects(rule({ event_names: ['Home'] }), identify, 'production')).toBe(false);
    expect(selects(rule({ event_types: ['track'], event_names: ['Home'] }), page, 'production')).toBe(false);
  });
});

it('states which events a rule accepts', () => {
  expect(selectionOf(rule())).toBe('all events');
  expect(selectionOf(rule({ event_types: ['track', 'page'] }))).toBe('all track, page events');
  expect(selectionOf(rule({ event_names: ['A', 'B', 'C', 'D', 'E'] }))).toBe('A, B, C and 2 more');
});

it('finds rows by a part of the name or by the type', () => {
  const row = { type: 'track', name: 'Order Placed' } as const;
  expect([isNamed(row, 'order'), isNamed(row, 'TRACK'), isNamed(row, 'page')]).toEqual([true, true, false]);
});
