import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { FIGURES, figureIn } from './bench.ts';
import { DOCUMENTS, documentUrl, figures } from './figures.ts';
import { filled, namesIn } from './fill.ts';
import { unsourced } from './sources.ts';

const at = (path: string) => readFileSync(documentUrl(path), 'utf8');
const known = figures();
const readme = at('README.md');
const comparison = at('docs/comparison.md');

/** Figures that are measured, outside of the marked spans and of blocks of code. */
function unmarkedFigures(text: string): readonly string[] {
  const prose = text
    .replaceAll(/^```[\s\S]*?^```$/gm, '')
    .replaceAll(/<!--figure:[\w-]+-->[\s\S]*?<!--\/figure-->/g, '')
    .replaceAll(/\s+/g, ' ');
  const MEASURED = /\d[\d,.]*(?: - \d[\d,.]*)? ?(?:\/s\b|ms\b|MiB\b|(?:\w+ ){0,2}a second)/g;
  return [...prose.matchAll(MEASURED)].map(([figure]) => figure);
}

describe.each(DOCUMENTS)('%s', (path) => {
  const text = at(path);

  it('claims what docs/bench.md, the registry and the tests say; `npm run docs:figures` fills it in', () => {
    expect(namesIn(text).length).toBeGreaterThan(3);
    expect(text).toBe(filled(text, known));
  });

  it('has no line that begins with a mark, which would end its paragraph', () => {
    expect(text.split('\n').filter((line) => /^\s*<!--/.test(line))).toEqual([]);
  });
});

describe('README.md', () => {
  it('is read in five minutes', () => {
    expect(readme.split('\n').length).toBeLessThanOrEqual(151);
  });

  it('has no measured figure that is not filled in', () => {
    // The load of a measurement.
    const allowed = ['500 events a second'];
    expect(unmarkedFigures(readme).filter((figure) => !allowed.includes(figure))).toEqual([]);
    expect(unmarkedFigures('it takes 12 ms, and 1,200 - 1,300 single events a second')).toHaveLength(2);
  });

  it('links each row of its table to the section of the comparison that has the sources', () => {
    const anchors = [...comparison.matchAll(/^## (.+)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w -]/g, '')
        .replaceAll(' ', '-'),
    );
    const rows = readme
      .split('\n')
      .filter((line) => line.startsWith('| ') && !/^\| (?:-+|\s+) \|/.test(line));
    expect(rows.length).toBeGreaterThan(6);
    for (const row of rows)
      expect(anchors).toContain(/^\| \[[^\]]+\]\(docs\/comparison\.md#([\w-]+)\)/.exec(row)?.[1]);
  });

  it('shows a picture that is there', () => {
    const [, picture = ''] = /!\[[^\]]+\]\(([^)]+)\)/.exec(readme) ?? [];
    const { length } = readFileSync(documentUrl(picture));
    expect(length).toBeGreaterThan(10_000);
    expect(length).toBeLessThan(300_000);
  });
});

describe('docs/comparison.md', () => {
  const folder = documentUrl('docs/');
  const root = documentUrl('');

  it('has a source for each project in each section, that can be looked up, and the date', () => {
    expect(unsourced(comparison, folder, root)).toEqual([]);
    expect(comparison).toMatch(/on \d{4}-\d\d-\d\d, in stored copies/);
  });

  it.each([
    ['a row without a source', /\[gateway\/handle\.go\]\([^)]+\)/, 'somewhere'],
    ['a project left out', /^- Jitsu: .*$/m, ''],
    ['a source that moves', /\/blob\/[0-9a-f]{40}\/gateway/, '/blob/master/gateway'],
    ['a test that is not there', 'test/chaos', 'test/chaos-that-is-not'],
    ['a document that is not there', '(guides/funnel.md)', '(guides/no-funnel.md)'],
  ])('would not pass with %s', (_, what, instead) => {
    const worse = comparison.replaceAll(what instanceof RegExp ? new RegExp(what, 'gm') : what, instead);
    expect(worse).not.toBe(comparison);
    expect(unsourced(worse, folder, root)).not.toEqual([]);
  });
});

describe('a figure', () => {
  it('that bench.md has in another number is another claim', () => {
    const bench = at('docs/bench.md').replaceAll(/\| [\d,]+ events\/s /g, '| 1,234 events/s ');
    expect(figureIn(bench, 'pipeline', FIGURES.pipeline ?? { section: '', pattern: /$^/ })).toBe('1,234');
  });

  it('a figure that bench.md does not have, or an invalid name, is an error', () => {
    expect(() => figureIn('', 'pipeline', { section: '', row: 'pipeline', pattern: /^(\d+)/ })).toThrow(
      'pipeline',
    );
    expect(() => filled('<!--figure:speed-->9<!--/figure-->', known)).toThrow('no figure named speed');
  });
});
