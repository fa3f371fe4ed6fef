import { describe, expect, it } from 'vitest';
import { ATTACKS } from '../flows/tenants/attacks.ts';
import { documentAt, faultsOf, rowsBelow, rowsOf } from './named-tests.ts';

const text = documentAt('docs/threat-model.md');
const SHARED = 'What tenants share';

describe('the threat model', () => {
  it('names for each line a test that exists', () => {
    const rows = rowsOf(text);
    expect(rows.length).toBeGreaterThan(50);
    expect(faultsOf(rows)).toEqual([]);
    const shared = new Set(rowsBelow(SHARED, text).map(({ line }) => line));
    const threats = rows.filter(({ line }) => !shared.has(line));
    expect(threats.filter(({ line }) => !/^- [STRIDE] \w.*: .*: /.test(line))).toEqual([]);
  });

  it('names a bound of one tenant for each thing that tenants share', () => {
    const rows = rowsBelow(SHARED, text);
    expect(rows.length).toBeGreaterThan(20);
    expect(rows.filter(({ line }) => !/^- \S.*: .*\w.*: `/.test(line))).toEqual([]);
  });

  it('had things that tenants share whose worst use no test measured from beside', () => {
    const attacked = ATTACKS.flatMap(({ rows }) => rows);
    const lines = rowsBelow(SHARED, text).map(({ line }) => line);
    const isAttacked = (line: string) => attacked.some((row) => line.startsWith(`- ${row}: `));
    expect(lines.filter((line) => !isAttacked(line))).toEqual([]);
    expect(lines).toHaveLength(attacked.length);
  });

  it('has every room', () => {
    for (const room of [
      ...'Gateway Log Processors Sandbox Connectors Catalog History Operators'.split(' '),
      'Live tail',
      'Audit log',
    ])
      expect(text).toContain(`\n## ${room}\n`);
  });
});
