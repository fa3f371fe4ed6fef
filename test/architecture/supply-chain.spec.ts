import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');

interface Locked {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly link?: boolean;
  readonly dev?: boolean;
  readonly hasInstallScript?: boolean;
  readonly deprecated?: string;
}
const lock = JSON.parse(read('package-lock.json')) as { readonly packages: Readonly<Record<string, Locked>> };

/** The packages of the lock file that a registry serves, with the name each is installed under. */
const packages = Object.entries(lock.packages)
  .filter(([path, { link }]) => path.includes('node_modules/') && link !== true)
  .map(([path, locked]) => ({ path, name: path.replace(/^.*node_modules\//, ''), ...locked }));

const pathsOf = (chosen: typeof packages) => chosen.map(({ path }) => path);

describe('the lock file', () => {
  it('could not be read by the npm of Debian 12, which builds the image: no override replaces a package by another one', () => {
    const { overrides } = JSON.parse(read('package.json')) as { readonly overrides: object };
    expect(JSON.stringify(overrides)).not.toContain('npm:');
  });

  it('lacked the Node that runs in production: it has the digest of every package including Node', () => {
    expect(pathsOf(packages.filter(({ integrity }) => integrity?.startsWith('sha512-') !== true))).toEqual(
      [],
    );
    const node = realpathSync(process.execPath);
    const running = packages.find(({ path }) => node.startsWith(join(root, path, '/')));
    expect(running?.name).toMatch(/^node-(linux|win)-/);
    expect(`v${running?.version}`).toBe(process.version);
  });

  it('names no host', () => {
    expect(pathsOf(packages.filter(({ resolved }) => resolved !== undefined))).toEqual([]);
  });

  it('has no deprecated package, of which npm ci would warn', () => {
    expect(pathsOf(packages.filter(({ deprecated }) => deprecated !== undefined))).toEqual([]);
  });

  it('keeps the old packages of test tools out of production', () => {
    const old = packages.filter(({ name, version = '' }) => {
      if (name === 'axios' || name === 'busboy' || name === 'dicer') return version.startsWith('0.');
      return name === 'fast-xml-parser' && Number.parseInt(version, 10) < 5;
    });
    expect(old.length).toBeGreaterThan(0);
    expect(pathsOf(old.filter(({ dev }) => dev !== true))).toEqual([]);
  });
});

describe('install scripts', () => {
  it('do not run for any package', () => {
    expect(read('.npmrc').split('\n')).toContain('ignore-scripts=true');
  });

  it('are reviewed: npm 11 warns of one that package.json neither allows nor denies', () => {
    const { allowScripts } = JSON.parse(read('package.json')) as { readonly allowScripts: object };
    const scripted = packages.filter(({ hasInstallScript }) => hasInstallScript === true);
    expect(allowScripts).toEqual(Object.fromEntries(scripted.map(({ name }) => [name, false])));
  });

  it('are listed with the reason why they are not needed', () => {
    const list =
      read('docs/operations/supply-chain.md').split('## No install script runs')[1]?.split('\n## ')[0] ?? '';
    const listed = [...list.matchAll(/^- (.+) \(/gm)].flatMap(([, names = '']) =>
      names.split(', ').map((name) => name.slice(1, -1)),
    );
    const scripted = packages.filter(({ hasInstallScript }) => hasInstallScript === true);
    expect(listed.toSorted()).toEqual(scripted.map(({ name }) => name).toSorted());
  });
});

it('the SBOM names every production package with its digest, and no test tool', () => {
  const printed = execFileSync('npm', ['run', '--silent', 'sbom'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 16 * 1024 * 1024,
  });
  const { bomFormat, components } = JSON.parse(printed) as {
    readonly bomFormat: string;
    readonly components: readonly { readonly name: string; readonly hashes?: readonly unknown[] }[];
  };
  expect(bomFormat).toBe('CycloneDX');
  const hashed = new Set(components.filter(({ hashes }) => hashes !== undefined).map(({ name }) => name));
  const production = packages.filter(({ dev }) => dev !== true).map(({ name }) => name);
  expect(production.filter((name) => !hashed.has(name))).toEqual([]);
  expect([...hashed].filter((name) => ['vitest', 's3rver', 'analytics-node'].includes(name))).toEqual([]);
});

describe('the release workflow', () => {
  const workflow = read('.github/workflows/release.yml');

  it.each(['npm audit signatures', 'npm audit --omit=dev', 'npm run --silent sbom', 'bash .ci/run'])(
    'runs `%s`',
    (command) => expect(workflow).toContain(`- run: ${command}`),
  );
});

describe('every workflow', () => {
  const folder = '.github/workflows/';

  it.each(readdirSync(join(root, folder)))('pins every action by its commit: %s', (file) => {
    const actions = [...read(`${folder}${file}`).matchAll(/uses: (\S+)/g)].map(([, action = '']) => action);
    expect(actions.length).toBeGreaterThan(0);
    for (const action of actions) expect(action).toMatch(/@[0-9a-f]{40}$/);
  });
});
