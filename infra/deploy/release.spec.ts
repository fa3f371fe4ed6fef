import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const script = fileURLToPath(new URL('./release.ts', import.meta.url));

/** A repository with two workspaces that depend on each other, without the user's signing or hooks. */
const FILES = {
  'package.json': { name: 'house', version: '0.1.0', workspaces: ['core', 'gateway'] },
  'core/package.json': { name: '@tributary/core', version: '0.1.0', dependencies: { ajv: '8.0.0' } },
  'gateway/package.json': {
    name: '@tributary/gateway',
    version: '0.1.0',
    dependencies: { '@tributary/core': '0.1.0', ajv: '8.0.0' },
  },
  'package-lock.json': {
    name: 'house',
    version: '0.1.0',
    packages: {
      '': { name: 'house', version: '0.1.0' },
      core: { name: '@tributary/core', version: '0.1.0', dependencies: { ajv: '8.0.0' } },
      gateway: { name: '@tributary/gateway', version: '0.1.0', dependencies: { '@tributary/core': '0.1.0' } },
      'node_modules/ajv': { version: '8.0.0' },
    },
  },
};
const CHANGELOG =
  '# Changelog\n\n## [0.2.0] - unreleased\n\n### Added\n\n- A thing.\n\n## [0.1.0] - 2026-01-01\n';

const CHART = 'infra/deploy/chart/tributary/Chart.yaml';

let folder: string;
const git = (...args: readonly string[]) =>
  execFileSync('git', ['-c', 'commit.gpgsign=false', ...args], { cwd: folder, encoding: 'utf8' }).trim();
const read = (file: string) => readFileSync(join(folder, file), 'utf8');
const version = (file: string) => JSON.parse(read(file)).version;
const release = (wanted: string) =>
  spawnSync(process.execPath, [script, wanted], { cwd: folder, encoding: 'utf8' });

function write(file: string, content: string): void {
  mkdirSync(dirname(join(folder, file)), { recursive: true });
  writeFileSync(join(folder, file), content);
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-release-'));
  git('init', '--quiet');
  for (const [name, value] of [
    ['user.name', 'A'],
    ['user.email', 'a@example.com'],
    ['commit.gpgsign', 'false'],
    ['tag.gpgsign', 'false'],
    ['core.hooksPath', join(folder, 'none')],
  ] as const)
    git('config', name, value);
  for (const [file, content] of Object.entries(FILES)) write(file, `${JSON.stringify(content, null, 2)}\n`);
  write('CHANGELOG.md', CHANGELOG);
  write(CHART, 'apiVersion: v2\nname: house\nversion: 0.1.0\nappVersion: 0.1.0\n');
  git('add', '--all');
  git('commit', '--quiet', '--message', 'Begin');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('a release', () => {
  it('sets the version of every workspace and of the chart, dates the entry, commits and tags', () => {
    expect(release('0.2.0').status).toBe(0);
    for (const file of Object.keys(FILES)) expect(version(file)).toBe('0.2.0');
    expect(read(CHART)).toBe('apiVersion: v2\nname: house\nversion: 0.2.0\nappVersion: 0.2.0\n');
    expect(JSON.parse(read('gateway/package.json')).dependencies).toEqual({
      '@tributary/core': '0.2.0',
      ajv: '8.0.0',
    });
    const { packages } = JSON.parse(read('package-lock.json'));
    expect(packages.gateway.dependencies).toEqual({ '@tributary/core': '0.2.0' });
    expect(packages['node_modules/ajv'].version).toBe('8.0.0');
    expect(read('CHANGELOG.md')).toMatch(/^## \[0\.2\.0\] - \d{4}-\d\d-\d\d$/m);
    expect(git('status', '--porcelain')).toBe('');
    expect(git('describe', '--exact-match')).toBe('v0.2.0');
    expect(git('log', '-1', '--format=%s')).toBe('Release 0.2.0');
  });

  it('of the version that is there already is the tag and the date', () => {
    for (const [file, content] of Object.entries(FILES))
      write(file, `${JSON.stringify(content, null, 2).replaceAll('0.1.0', '0.2.0')}\n`);
    git('commit', '--quiet', '--all', '--message', 'Bump');
    expect(release('0.2.0').status).toBe(0);
    expect(git('describe', '--exact-match')).toBe('v0.2.0');
  });

  it.each<[string, string, () => void, RegExp]>([
    ['is no version', 'v0.2', () => {}, /is no version/],
    ['is behind the present one', '0.0.9', () => {}, /is behind/],
    ['has no entry in the changelog', '0.3.0', () => {}, /no "## \[0\.3\.0\]/],
    [
      'has an entry that says nothing',
      '0.2.0',
      () => {
        write('CHANGELOG.md', CHANGELOG.replace('- A thing.\n', ''));
        git('commit', '--quiet', '--all', '--message', 'Empty');
      },
      /says nothing/,
    ],
    ['meets uncommitted changes', '0.2.0', () => write('new.txt', ''), /not clean/],
    ['is tagged already', '0.2.0', () => void git('tag', 'v0.2.0'), /is there already/],
  ])('that %s is refused, and changes nothing', (_, wanted, before, reason) => {
    before();
    const head = git('rev-parse', 'HEAD');
    const { status, stderr } = release(wanted);
    expect(stderr).toMatch(reason);
    expect(status).toBe(1);
    expect(git('rev-parse', 'HEAD')).toBe(head);
    expect(version('core/package.json')).toBe('0.1.0');
  });
});
