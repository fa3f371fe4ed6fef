import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

type Dependencies = Record<string, string>;

interface Manifest {
  name: string;
  version: string;
  workspaces?: readonly string[];
  dependencies?: Dependencies;
  devDependencies?: Dependencies;
}

interface LockFile {
  version: string;
  readonly packages: Record<string, Partial<Manifest>>;
}

const VERSION = /^(\d+)\.(\d+)\.(\d+)$/;
const SCOPE = '@tributary/';
const CHART = 'infra/deploy/chart/tributary/Chart.yaml';

const git = (...args: readonly string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim();
const read = <T>(file: string) => JSON.parse(readFileSync(file, 'utf8')) as T;
const write = (file: string, content: unknown) =>
  writeFileSync(file, `${JSON.stringify(content, null, 2)}\n`);

class ReleaseRefused extends Error {}

/**
 * Makes a release of the working folder: `npm run release -- 0.3.0`. Checks that the tree is clean, that the version is
 * not older than the present one and not tagged yet, and that `CHANGELOG.md` has an entry for it. Then dates the entry,
 * sets the version of every workspace and of the chart, commits and tags. Nothing is pushed.
 */
function release(version: string, today: string): void {
  const root = read<Manifest>('package.json');
  if (!VERSION.test(version)) throw new ReleaseRefused(`"${version}" is no version: write 1.2.3`);
  if (isBehind(version, root.version))
    throw new ReleaseRefused(`${version} is behind the present version, ${root.version}`);
  if (git('status', '--porcelain') !== '')
    throw new ReleaseRefused('the tree is not clean: commit or stash its changes');
  const tag = `v${version}`;
  if (git('tag', '--list', tag) !== '') throw new ReleaseRefused(`the tag ${tag} is there already`);
  const changelog = datedEntry(readFileSync('CHANGELOG.md', 'utf8'), version, today);

  const folders = root.workspaces ?? [];
  for (const file of ['package.json', ...folders.map((folder) => `${folder}/package.json`)])
    write(file, withVersion(read<Manifest>(file), version));
  const lock = read<LockFile>('package-lock.json');
  lock.version = version;
  for (const path of ['', ...folders]) {
    const locked = lock.packages[path];
    if (locked !== undefined) lock.packages[path] = withVersion(locked, version);
  }
  write('package-lock.json', lock);
  writeFileSync('CHANGELOG.md', changelog);
  writeFileSync(CHART, withChartVersion(readFileSync(CHART, 'utf8'), version));

  if (git('status', '--porcelain') !== '')
    git('commit', '--quiet', '--all', '--message', `Release ${version}`);
  git('tag', '--annotate', tag, '--message', `Tributary ${version}`);
  process.stdout.write(`${tag} is tagged. Publish it with: git push --follow-tags\n`);
}

function isBehind(version: string, present: string): boolean {
  const [wanted, current] = [version, present].map((text) => text.split('.').map(Number));
  for (const [at, part] of (wanted ?? []).entries()) {
    const other = current?.[at] ?? 0;
    if (part !== other) return part < other;
  }
  return false;
}

/** The changelog with the date of the entry, which must not be empty. */
function datedEntry(changelog: string, version: string, today: string): string {
  const heading = `## [${version}] - `;
  const start = changelog.indexOf(heading);
  if (start < 0) throw new ReleaseRefused(`CHANGELOG.md has no "${heading}unreleased"`);
  const [line = '', ...rest] = changelog.slice(start).split('\n');
  const [body = ''] = rest.join('\n').split('\n## ');
  if (!body.includes('\n- '))
    throw new ReleaseRefused(`the entry of ${version} in CHANGELOG.md says nothing`);
  return changelog.replace(line, line.replace('unreleased', today));
}

/** Dependencies between workspaces are exact versions. */
function withVersion<T extends Partial<Manifest>>(manifest: T, version: string): T {
  const renewed = (dependencies: Dependencies) =>
    Object.fromEntries(
      Object.entries(dependencies).map(([name, wanted]) => [name, name.startsWith(SCOPE) ? version : wanted]),
    );
  return {
    ...manifest,
    version,
    ...(manifest.dependencies && { dependencies: renewed(manifest.dependencies) }),
    ...(manifest.devDependencies && { devDependencies: renewed(manifest.devDependencies) }),
  };
}

/** The chart has the version of the program that it installs. */
function withChartVersion(chart: string, version: string): string {
  return chart.replace(/^(version|appVersion): .*$/gm, `$1: ${version}`);
}

try {
  release(process.argv[2] ?? '', new Date().toISOString().slice(0, 10));
} catch (error) {
  if (!(error instanceof ReleaseRefused)) throw error;
  process.stderr.write(`no release: ${error.message}\n`);
  process.exitCode = 1;
}
