import { describe, expect, it } from 'vitest';
import { documentAt, faultsOf, rowsOf } from './named-tests.ts';

const text = documentAt('docs/threat-model.md');

describe('the threat model', () => {
  it('names for each line a test that exists', () => {
    const rows = rowsOf(text);
    expect(rows.length).toBeGreaterThan(50);
    expect(faultsOf(rows)).toEqual([]);
    expect(rows.filter(({ line }) => !/^\| +[STRIDE] +\|/.test(line))).toEqual([]);
  });

  it('has every room', () => {
    for (const room of [
      'Gateway',
      'Log',
      'Processors',
      'Sandbox',
      'Connectors',
      'Catalog',
      'History',
      'Live tail',
      'Audit log',
      'Operators',
    ])
      expect(text).toContain(`\n## ${room}\n`);
  });
});
