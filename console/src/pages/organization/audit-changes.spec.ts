import { expect, it } from 'vitest';
import { changesOf, shortOf } from './audit-changes.ts';

const rule = {
  id: 'r',
  name: 'Orders',
  enabled: true,
  filter: { all: [1], limits: { rate: 5, burst: 1 } },
  environments: ['production'],
  updated_at: '2026-01-01T00:00:00.000Z',
  version: 1,
};

it('are the fields that differ, members of objects by their path, lists whole', () => {
  const after = {
    ...rule,
    enabled: false,
    filter: { all: [1], limits: { rate: 7, burst: 1 } },
    environments: ['production', 'development'],
    updated_at: '2026-01-02T00:00:00.000Z',
    version: 2,
    note: 'x',
  };
  expect(changesOf(rule, after)).toEqual([
    { field: 'enabled', before: true, after: false },
    { field: 'filter.limits.rate', before: 5, after: 7 },
    { field: 'environments', before: ['production'], after: ['production', 'development'] },
    { field: 'note', after: 'x' },
  ]);
});

it('leave out fields that a new entity does not have', () => {
  const created = { id: 'r', created_by: 'a', name: 'Orders', description: null, tags: [], enabled: false };
  expect(changesOf(null, created)).toEqual([
    { field: 'name', after: 'Orders' },
    { field: 'enabled', after: false },
  ]);
  expect(changesOf({ name: 'Orders', description: '' }, null)).toEqual([{ field: 'name', before: 'Orders' }]);
});

it('are empty without a difference', () => {
  expect(changesOf(rule, { ...rule, version: 2 })).toEqual([]);
  expect(changesOf(null, null)).toEqual([]);
});

it('are written on one line', () => {
  expect(shortOf('a\n  b')).toBe('a b');
  expect(shortOf({ a: [1] })).toBe('{"a":[1]}');
  expect(shortOf(undefined)).toBe('');
  expect(shortOf('x'.repeat(80), 10)).toBe(`${'x'.repeat(9)}…`);
});
