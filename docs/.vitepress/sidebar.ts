import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { DefaultTheme } from 'vitepress';

/** A document. `path` is relative to `docs/`. */
export interface DocumentPage {
  readonly path: string;
  /** Its first heading. */
  readonly title: string;
}

interface Group {
  readonly text: string;
  readonly folder: string;
  /** Documents in reading order, without `.md`; the others follow by title. */
  readonly order: readonly string[];
  readonly groups?: readonly Group[];
}

const GROUPS: readonly Group[] = [
  {
    text: 'Guides',
    folder: 'guides',
    order: [
      'first-event',
      'browser-site',
      'server-sdks',
      'inbound-webhooks',
      'contracts',
      'tracking-plan',
      'transformations',
      'destinations',
      'mappings',
      'connect-a-service',
      'warehouses',
      'query-your-events',
      'webhooks',
      'deliveries',
      'profiles',
      'privacy',
      'alerts',
      'funnel',
      'a-shop',
    ],
  },
  {
    text: 'Reference',
    folder: 'reference',
    order: [
      'api',
      'errors',
      'limits',
      'permissions',
      'connectors',
      'settings',
      'topics',
      'live-stream',
      'mails',
      'metrics',
    ],
  },
  {
    text: 'Operations',
    folder: 'operations',
    order: [
      'README',
      'one-machine',
      'kubernetes',
      'engines-elsewhere',
      'move',
      'upgrades',
      'backup',
      'monitoring',
      'capacity',
      'partitions',
      'rights',
      'tracing',
      'engine-incidents',
      'supply-chain',
    ],
    groups: [{ text: 'Runbooks', folder: 'operations/runbooks', order: [] }],
  },
  {
    text: 'Internals',
    folder: '.',
    order: ['architecture', 'threat-model', 'platform-api', 'profile-api', 'bench', 'sizing'],
    groups: [{ text: 'Decisions', folder: 'decisions', order: ['README'] }],
  },
];

/** The start page is reached by the name of the site. */
const START_PAGE = 'README.md';

/** All documents below `folder`. A document without a first-level heading is an error. */
export function readPages(folder: string): readonly DocumentPage[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md') && !/(?:^|\/)(?:node_modules|\.vitepress)\//.test(path))
    .map((path) => ({ path, title: titleOf(readFileSync(join(folder, path), 'utf8'), path) }));
}

export function titleOf(text: string, path: string): string {
  const title = /^# (.+)$/m.exec(text)?.[1];
  if (title === undefined) throw new Error(`${path} has no title: its first line must be "# <title>"`);
  return title
    .replaceAll('`', '')
    .replaceAll(/\[([^\]]+)\]\([^)]*\)/g, '$1')
    .trim();
}

/** The sidebar: every document except the start page, in the four parts. A folder without a part is an error. */
export function sidebar(pages: readonly DocumentPage[]): DefaultTheme.SidebarItem[] {
  const items = GROUPS.map((group) => itemOf(group, pages, 0));
  const folders = new Set(
    GROUPS.flatMap(({ folder, groups = [] }) => [folder, ...groups.map((inner) => inner.folder)]),
  );
  const lost = pages.filter(({ path }) => !folders.has(dirname(path)));
  if (lost.length > 0)
    throw new Error(`no part of the sidebar has the folder of ${lost.map(({ path }) => path).join(', ')}`);
  return items;
}

function itemOf(group: Group, pages: readonly DocumentPage[], depth: number): DefaultTheme.SidebarItem {
  const { text, folder, order, groups = [] } = group;
  const rank = ({ path }: DocumentPage) => {
    const found = order.indexOf(path.replace(/^.*\//, '').replace(/\.md$/, ''));
    return found === -1 ? order.length : found;
  };
  const own = pages
    .filter(({ path }) => dirname(path) === folder && path !== START_PAGE)
    .toSorted((a, b) => rank(a) - rank(b) || a.title.localeCompare(b.title, 'en', { numeric: true }));
  return {
    text,
    collapsed: depth > 0,
    items: [
      ...own.map(({ path, title }) => ({ text: title, link: addressOf(path) })),
      ...groups.map((inner) => itemOf(inner, pages, depth + 1)),
    ],
  };
}

/** The address of a document, without the base of the site. */
export function addressOf(path: string): string {
  return `/${path.replace(/(^|\/)README\.md$/, '$1').replace(/\.md$/, '')}`;
}
