import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** The parts of a CycloneDX document that are read here. */
interface Sbom {
  readonly components: readonly {
    readonly 'bom-ref': string;
    readonly name: string;
    readonly version: string;
  }[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

interface LockFile {
  readonly packages: Readonly<Record<string, { readonly version?: string; readonly dev?: boolean }>>;
}

/**
 * Prints the components that `npm ci --omit=dev` installs, as CycloneDX JSON. The list is npm's own. Its `--omit dev`
 * also drops packages that production shares with a development tool, and its mark of a development package follows one
 * copy of several (npm 11.19), so the lock file decides here which components stay.
 */
const listed = execFileSync(
  'npm',
  ['sbom', '--package-lock-only', '--sbom-format', 'cyclonedx', '--sbom-type', 'application'],
  { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
);
const sbom = JSON.parse(listed) as Sbom;
const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as LockFile;

const production = new Set(
  Object.entries(lock.packages)
    .filter(([path, { dev }]) => path.includes('node_modules/') && dev !== true)
    .map(([path, { version }]) => `${path.replace(/^.*node_modules\//, '')}@${version}`),
);
const omitted = new Set(
  sbom.components
    .filter(({ name, version }) => !production.has(`${name}@${version}`))
    .filter(({ name }) => lock.packages[name] === undefined) // keeps the workspaces
    .map((component) => component['bom-ref']),
);
const stays = (ref: string) => !omitted.has(ref);
const document = {
  ...sbom,
  components: sbom.components.filter((component) => stays(component['bom-ref'])),
  dependencies: sbom.dependencies
    .filter(({ ref }) => stays(ref))
    .map((dependency) => ({ ...dependency, dependsOn: dependency.dependsOn.filter(stays) })),
};
process.stdout.write(`${JSON.stringify(document, null, 2)}\n`);
