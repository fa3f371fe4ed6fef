import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { anchorsOf, linksOf, withoutCode } from './markdown-links.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const documents = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*.md'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && existsSync(join(root, path)));

function faultsOf(path: string, text: string): readonly string[] {
  return linksOf(text).flatMap(({ path: to, anchor }) => {
    if (to.startsWith('/'))
      return [`${path}: ${to} works neither on GitHub nor on the site: write it relative`];
    const target = to === '' ? path : join(dirname(path), to);
    if (to !== '' && (target.startsWith('..') || !existsSync(join(root, target))))
      return [`${path}: ${to} does not exist`];
    if (anchor === '' || !target.endsWith('.md')) return [];
    return anchorsOf(to === '' ? text : read(target)).has(anchor)
      ? []
      : [`${path}: ${to}#${anchor} does not exist`];
  });
}

describe('the documents of the repository', () => {
  it('have no dead link and no dead anchor', () => {
    expect(documents.length).toBeGreaterThan(100);
    expect(documents.flatMap((path) => faultsOf(path, read(path)))).toEqual([]);
  });

  it('would be found out', () => {
    const text = [
      '[a](architecture.md#glossary) [b](architecture.md#nowhere) [c](nowhere.md) [d](#two) [e](#three)',
      '`[f](nowhere.md)` [g](/docs) [h](https://example.com/nowhere) ![i](nowhere.png)',
      '## One',
      '## Two',
      '```md',
      '[j](nowhere.md)',
      '```',
    ].join('\n');
    expect(faultsOf('docs/sample.md', text).map((fault) => fault.split(' ')[1])).toEqual([
      'architecture.md#nowhere',
      'nowhere.md',
      '#three',
      '/docs',
      'nowhere.png',
    ]);
  });

  it('of docs/ have no HTML, which the site would show as text', () => {
    const html = documents
      .filter((path) => path.startsWith('docs/'))
      .flatMap((path) =>
        [...withoutCode(read(path)).matchAll(/<\/?[a-z][a-z0-9-]*(?:\s[^<>]*)?>/g)].map(
          ([tag]) => `${path}: ${tag}`,
        ),
      );
    expect(html).toEqual([]);
  });
});
