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
 * The faults in the sources of `docs/comparison.md`: each section must have a line for each project, with
 * a source that exists. `folder`: where relative links begin; `root`: the repository.
 */
export function unsourced(text: string, folder: URL, root: URL): readonly Unsourced[] {
  return text
    .split(/^## /m)
    .slice(1)
    .flatMap((part) => {
      const section = part.slice(0, part.indexOf('\n'));
      const rows = [...part.matchAll(/^- (\w+): (.*)$/gm)];
      const projects = rows.map(([, project]) => project);
      const missing = PROJECTS.filter((project) => !projects.includes(project)).map(
        (project) => `${project} is missing`,
      );
      const faults = rows.flatMap(([, project, line = '']) =>
        faultsOf(line, folder, root).map((fault) => `${project}: ${fault}`),
      );
      return [...missing, ...faults].map((fault) => ({ section, fault }));
    });
}

function faultsOf(line: string, folder: URL, root: URL): readonly string[] {
  const links = [...line.matchAll(/\]\(([^)]+)\)/g)].map(([, target = '']) => target);
  const paths = [...line.matchAll(/`(test\/[\w./-]+)`/g)].map(([, path = '']) => path);
  if (links.length + paths.length === 0) return ['no source'];
  const isThere = (target: string) =>
    target.startsWith('https:')
      ? PINNED.test(target) || DOCUMENTATION.test(target)
      : existsSync(new URL(target.replace(/#.*$/, ''), folder));
  return [
    ...links.filter((target) => !isThere(target)),
    ...paths.filter((path) => !existsSync(new URL(path, root))),
  ].map((source) => `${source} is no source that can be looked up`);
}
