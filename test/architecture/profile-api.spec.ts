import { describe, expect, it } from 'vitest';
import { documentAt, faultsOf, rowsBelow, rowsOf } from './named-tests.ts';

const text = documentAt('docs/profile-api.md');

describe('the table of the profile API', () => {
  it('names for each row a test that exists', () => {
    const rows = rowsOf(text);
    expect(rows.length).toBeGreaterThan(65);
    expect(faultsOf(rows)).toEqual([]);
  });

  it('shows by a call of the gateway whatever a caller can see', () => {
    const elsewhere = rowsOf(text).filter(({ reference }) => !/^`test\/(flows|gateway)\//.test(reference));
    expect(elsewhere.map(({ line }) => line.slice(2).split(': ')[0])).toEqual([
      'attribute names',
      'emitted by the operations',
    ]);
  });

  it.each([
    'Resources',
    'Calls',
    'Authentication',
    'Events',
    'Errors',
    'Limits',
    'What the specification leaves open',
  ])('has rows about %s', (section) => {
    expect(rowsBelow(section, text).length).toBeGreaterThan(0);
  });
});
