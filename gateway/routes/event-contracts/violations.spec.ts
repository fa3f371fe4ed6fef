import { describe, expect, it } from 'vitest';
import { violationsOf } from './violations.ts';

const contract = { id: 'c', workspace_id: 'w' };

describe('violationsOf', () => {
  it('asks for one contract, in its workspace', () => {
    expect(violationsOf(contract, {})).toEqual({
      kind: 'violation',
      workspaceId: 'w',
      facets: { contract_id: 'c' },
      limit: 100,
    });
  });

  it('narrows by what was broken, where, what was done, and when', () => {
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

  it.each(['yesterday', '2026-13-01', '2026-01-01T00:00', '1767225600000', '2026-02-29', ''])(
    'refuses the time %j',
    (since) => {
      expect(() => violationsOf(contract, { since })).toThrow('invalid request');
    },
  );
});
