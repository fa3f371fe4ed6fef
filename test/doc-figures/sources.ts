import { existsSync } from 'node:fs';

/** A row of a comparison without a source that can be looked up, or a project that a section leaves out. */
export interface Unsourced {
  readonly section: string;
  readonly fault: string;
}

const PROJECTS = ['Tributary', 'RudderStack', 'Jitsu', 'PostHog', 'Segment'];
/** A file or folder of a repository at a commit, which nobody can change. */
const PINNED = /^https:\/\/github\.com\/[\w.-]+\/[\w.-]+\/(?:blob|tree)\/[0-9a-f]{40}(?:\/|$)/;
/** Documentation of the projects, and an organization's list of repositories. */
const DOCUMENTATION =
  /^https:\/\/(?:posthog\.com\/docs|www\.rudderstack\.com\/docs|github\.com\/rudderlabs$)/;

/**
 * The faults in the sources of `docs/comparison.md`: each section with a table must have one row a project, and the
 * last cell of each must name a source that exists. `folder`: where relative links begin; `root`: the repository.
 */
export function unsourced(text: string, folder: URL, root: URL): readonly Unsourced[] {
  const targets = new Map([...text.matchAll(/^\[(\w+)\]: (\S+)$/gm)].map(([, id, url]) => [id, url]));
  return text
    .split(/^## /m)
    .slice(1)
    .flatMap((part) => {
      const section = part.slice(0, part.indexOf('\n'));
      const rows = part
        .split('\n')
        .filter((line) => line.startsWith('| '))
        .map((line) => line.split('|').map((cell) => cell.trim()))
        .filter(([, project]) => project !== 'project' && !/^-+$/.test(project ?? ''));
      const projects = rows.map(([, project]) => project);
      const missing = PROJECTS.filter((project) => !projects.includes(project)).map(
        (project) => `${project} is missing`,
      );
      const faults = rows.flatMap((cells) =>
        faultsOf(cells.at(-2) ?? '', (id) => targets.get(id), folder, root).map(
          (fault) => `${cells[1]}: ${fault}`,
        ),
      );
      return [...missing, ...faults].map((fault) => ({ section, fault }));
    });
}

function faultsOf(
  cell: string,
  targetOf: (id: string) => string | undefined,
  folder: URL,
  root: URL,
): readonly string[] {
  const references = [...cell.matchAll(/\]\[(\w+)\]/g)].map(([, id = '']) => targetOf(id) ?? `[${id}]`);
  const links = [...cell.matchAll(/\]\(([^)]+)\)/g)].map(([, target = '']) => target);
  const paths = [...cell.matchAll(/`(test\/[\w./-]+)`/g)].map(([, path = '']) => path);
  if (references.length + links.length + paths.length === 0) return ['no source'];
  return [
    ...references.filter((url) => !PINNED.test(url) && !DOCUMENTATION.test(url)),
    ...links.filter((target) => !existsSync(new URL(target.replace(/#.*$/, ''), folder))),
    ...paths.filter((path) => !existsSync(new URL(path, root))),
  ].map((source) => `${source} is no source that can be looked up`);
}
