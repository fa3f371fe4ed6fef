import { describe, expect, it } from 'vitest';
import { documentAt, faultsOf, rowsBelow, rowsOf } from './named-tests.ts';

const text = documentAt('docs/platform-api.md');

describe('the table of the platform API', () => {
  it('names for each row a test that exists, and that calls the gateway', () => {
    const rows = rowsOf(text);
    expect(rows.length).toBeGreaterThan(90);
    expect(faultsOf(rows)).toEqual([]);
    const elsewhere = rows.filter(({ reference }) => !/^`test\/(flows|gateway|runtime)\//.test(reference));
    expect(elsewhere).toEqual([]);
  });

  it.each([
    ...'Resources States Calls Headers Authentication Events Errors Limits'.split(' '),
    'What the specification leaves open',
  ])('has rows about %s', (section) => {
    expect(rowsBelow(section, text).length).toBeGreaterThan(0);
  });
});
