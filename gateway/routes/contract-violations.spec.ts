import { describe, expect, it } from 'vitest';
import { countsOf, violationsOf } from './contract-violations.ts';

const contract = { id: 'c', workspace_id: 'w' };

describe('violationsOf', () => {
  it('narrows by violated rule, place, action and time', () => {
    const query = {
      kind: 'type',
      action: 'warned',
      path: '/amount',
      since: '2026-01-01',
      until: '2026-01-02T03:04:05+01:00',
      limit: '5',
      cursor: 'next',
    } as const;
    expect(violationsOf(contract, query)).toEqual({
      kind: 'violation',
      workspaceId: 'w',
      facets: { contract_id: 'c', kind: 'type', action: 'warned', path: '/amount' },
      since: Date.parse('2026-01-01T00:00:00Z'),
      until: Date.parse('2026-01-02T02:04:05Z'),
      limit: 5,
      cursor: 'next',
    });
  });

  it('narrows by version and environment, the version as it is written down', () => {
    const query = { contract_version: '03', environment: 'development' } as const;
    expect(violationsOf(contract, query).facets).toEqual({
      contract_id: 'c',
      contract_version: '3',
      environment: 'development',
    });
    for (const contract_version of ['0', '1.5', 'x', ''])
      expect(() => violationsOf(contract, { contract_version })).toThrow('invalid request');
  });

  it.each(['yesterday', '2026-13-01', '2026-01-01T00:00', '1767225600000', '2026-02-29', ''])(
    'refuses the time %j',
    (since) => {
      expect(() => violationsOf(contract, { since })).toThrow('invalid request');
    },
  );
});

describe('countsOf', () => {
  const now = Date.parse('2026-03-01T10:59:00Z');

  it.each(['0', '721', 'x'])('refuses %s hours', (hours) => {
    expect(() => countsOf(contract, { hours }, now)).toThrow('invalid request');
  });
});
