import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = new URL('../../', import.meta.url);
const rows = readFileSync(new URL('docs/threat-model.md', root), 'utf8')
  .split('\n')
  .filter((line) => /^\| +[STRIDE] +\|/.test(line))
  .map((line) => ({ line, test: line.split('|').at(-2)?.trim() ?? '' }));

const REFERENCE = /^`([\w./-]+\.ts)` "(.+)"$/;
const EXPECTED = /^_expected_ `[\w./-]+\.spec\.ts`$/;

describe('the threat model', () => {
  it('names for each line a test that exists, or the one that is expected', () => {
    expect(rows.length).toBeGreaterThan(40);
    const faults = rows.filter(({ test }) => !EXPECTED.test(test) && !exists(test));
    expect(faults.map(({ line }) => line)).toEqual([]);
  });

  it('has every room', () => {
    const text = readFileSync(fileURLToPath(new URL('docs/threat-model.md', root)), 'utf8');
    for (const room of [
      'Gateway',
      'Log',
      'Processors',
      'Sandbox',
      'Connectors',
      'Catalog',
      'History',
      'Operators',
    ])
      expect(text).toContain(`\n## ${room}\n`);
  });
});

/** Whether the file has a test, or a group of tests, whose title begins like that. */
function exists(test: string): boolean {
  const [, file = '', title = ''] = REFERENCE.exec(test) ?? [];
  if (file === '') return false;
  try {
    const source = readFileSync(new URL(file, root), 'utf8');
    return ["'", '"', '`'].some((quote) => source.includes(`${quote}${title}`));
  } catch {
    return false;
  }
}
