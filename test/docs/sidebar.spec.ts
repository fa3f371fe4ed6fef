import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { githubSlug, siteLink } from '../../docs/.vitepress/markdown.ts';
import { addressOf, readPages, sidebar, titleOf } from '../../docs/.vitepress/sidebar.ts';

const pages = readPages(fileURLToPath(new URL('../../docs/', import.meta.url)));

type Item = ReturnType<typeof sidebar>[number];
const linksOf = ({ link, items = [] }: Item): readonly string[] => [
  ...(link === undefined ? [] : [link]),
  ...items.flatMap(linksOf),
];

describe('the sidebar', () => {
  const parts = sidebar(pages);

  it('has the four parts, and every document but the start page once', () => {
    expect(parts.map(({ text }) => text)).toEqual(['Guides', 'Reference', 'Operations', 'Internals']);
    const wanted = pages.filter(({ path }) => path !== 'README.md').map(({ path }) => addressOf(path));
    expect(wanted.length).toBeGreaterThan(80);
    expect(parts.flatMap(linksOf).toSorted()).toEqual(wanted.toSorted());
  });

  it('begins with the first event, and counts decisions as numbers', () => {
    expect(linksOf(parts[0] ?? {})[0]).toBe('/guides/first-event');
    const decisions = linksOf(parts[3] ?? {}).filter((link) => link.startsWith('/decisions/'));
    expect(decisions.slice(0, 3)).toEqual(['/decisions/', '/decisions/0001-log', '/decisions/0004-kafka']);
  });

  it('refuses a document in a folder of no part, and one without a title', () => {
    expect(() => sidebar([{ path: 'elsewhere/page.md', title: 'Page' }])).toThrow('elsewhere/page.md');
    expect(() => titleOf('no heading', 'guides/page.md')).toThrow('guides/page.md has no title');
  });
});

it.each([
  [
    '../reference/limits.md#rates',
    'guides/alerts.md',
    { kind: 'page', href: '../reference/limits.md#rates' },
  ],
  ['../decisions/README.md#a', 'guides/alerts.md', { kind: 'page', href: '../decisions/index.md#a' }],
  ['decisions', 'bench.md', { kind: 'page', href: 'decisions/index.md' }],
  ['README.md#runbooks', 'operations/move.md', { kind: 'page', href: 'index.md#runbooks' }],
  ['#rates', 'reference/limits.md', { kind: 'page', href: '#rates' }],
  ['openapi.json', 'reference/api.md', { kind: 'gateway', href: '/openapi.json' }],
  ['../gateway/README.md', 'architecture.md', { kind: 'source', path: 'gateway/README.md' }],
  ['terminal.sh', 'guides/first-event.md', { kind: 'source', path: 'docs/guides/terminal.sh' }],
  ['../../CONTRIBUTING.md#turbo', 'guides/alerts.md', { kind: 'source', path: 'CONTRIBUTING.md' }],
] as const)('the link %s of %s leads to %o', (href, page, link) => {
  expect(siteLink(href, page)).toEqual(link);
});

it.each([
  ['Once a contract was corrected', 'once-a-contract-was-corrected'],
  ['1. `tributary move`: what, and when?', '1-tributary-move-what-and-when'],
  ['A  b - c_d', 'a--b---c_d'],
])('the heading %s has the anchor that GitHub gives it', (heading, anchor) => {
  expect(githubSlug(heading)).toBe(anchor);
});
