import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EngineFailed, EngineMissing } from './engine.ts';

const ABANDONED_AFTER_MS = 24 * 60 * 60 * 1000;
const PARTIAL = '.partial-';

/**
 * The folder `name` of the cache, filled by `fill` when it does not exist. It appears in one rename: a killed
 * download leaves no folder that looks complete, and among concurrent ones the first wins.
 */
export async function cachedFolder(
  cacheFolder: string,
  name: string,
  fill: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = join(cacheFolder, name);
  if (await exists(folder)) return folder;
  await removeAbandoned(cacheFolder);
  const partial = join(cacheFolder, `${PARTIAL}${name}-${randomBytes(4).toString('hex')}`);
  await mkdir(partial, { recursive: true });
  try {
    await fill(partial);
    await rename(partial, folder);
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    if (!(await exists(folder))) throw error;
  }
  return folder;
}

async function removeAbandoned(cacheFolder: string): Promise<void> {
  await mkdir(cacheFolder, { recursive: true });
  for (const name of await readdir(cacheFolder)) {
    if (!name.startsWith(PARTIAL)) continue;
    const path = join(cacheFolder, name);
    const changed = await stat(path).catch(() => undefined); // another run may have finished it meanwhile
    if (changed !== undefined && Date.now() - changed.mtimeMs > ABANDONED_AFTER_MS)
      await rm(path, { recursive: true, force: true });
  }
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

const PLUGIN = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1';

export interface Artifact {
  readonly group: string;
  readonly artifact: string;
  readonly version: string;
  /** A file other than a jar is fetched without its dependencies. */
  readonly type?: string;
  readonly classifier?: string;
}

/** Copies the artifacts, and the runtime dependencies of the jars among them, into a folder. */
export async function copyArtifacts(
  artifacts: readonly Artifact[],
  folder: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const project = await mkdtemp(join(tmpdir(), 'tributary-maven-'));
  try {
    await writeFile(join(project, 'pom.xml'), pomOf(artifacts));
    const args = [`${PLUGIN}:copy-dependencies`, '-DincludeScope=runtime', `-DoutputDirectory=${folder}`];
    const missing = 'install Maven (Debian: apt-get install maven)';
    await runTool('mvn', ['-B', '-q', ...args], { env, cwd: project, missing });
  } finally {
    await rm(project, { recursive: true, force: true });
  }
}

function pomOf(artifacts: readonly Artifact[]): string {
  return `<project>
<modelVersion>4.0.0</modelVersion>
<groupId>tributary</groupId><artifactId>engine</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
${artifacts.map(dependencyOf).join('\n')}
</dependencies>
</project>
`;
}

function dependencyOf({ group, artifact, version, type, classifier }: Artifact): string {
  const tag = (name: string, value: string | undefined) =>
    value === undefined ? '' : `<${name}>${value}</${name}>`;
  const alone =
    '<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>';
  return [
    '<dependency>',
    tag('groupId', group),
    tag('artifactId', artifact),
    tag('version', version),
    tag('type', type),
    tag('classifier', classifier),
    type === undefined ? '' : alone,
    '</dependency>',
  ].join('');
}

export interface Jdk {
  readonly home: string;
  /** The feature release, e.g. 21. */
  readonly version: number;
}

/** The search path: homes in order, folders of homes after them. */
export interface JavaPaths {
  readonly javaHomes: readonly string[];
  readonly jvmFolders: readonly string[];
}

/** An engine's requirement on Java: the lowest feature release. A runtime without compiler is enough. */
export interface JavaNeed {
  readonly engine: string;
  readonly minimum: number;
}

/**
 * The first suitable home, else the oldest suitable one below the folders: the closest to the version the
 * engine was built for.
 */
export async function findJdk(paths: JavaPaths, need: JavaNeed): Promise<Jdk | undefined> {
  const serves = ({ version }: Jdk) => version >= need.minimum;
  const named = (await readHomes(paths.javaHomes)).find(serves);
  if (named !== undefined) return named;
  const homes = await Promise.all(paths.jvmFolders.map(homesIn));
  const found = (await readHomes(homes.flat())).filter(serves);
  return found.sort((a, b) => a.version - b.version)[0];
}

export async function needJdk(paths: JavaPaths, need: JavaNeed): Promise<Jdk> {
  const jdk = await findJdk(paths, need);
  if (jdk !== undefined) return jdk;
  throw new EngineMissing(
    `${need.engine} needs Java ${need.minimum} or newer: install one below ${paths.jvmFolders.join(' or ')}, or set JAVA_HOME`,
  );
}

/** The feature release in a Java home's `release` file, or undefined. */
export function javaVersionOf(release: string): number | undefined {
  const [, legacy, feature] = /^JAVA_VERSION="(1\.)?(\d+)/m.exec(release) ?? [];
  return feature === undefined || legacy !== undefined ? undefined : Number(feature);
}

async function homesIn(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).sort().map((name) => join(folder, name));
  } catch {
    return []; // no such folder
  }
}

async function readHomes(homes: readonly string[]): Promise<Jdk[]> {
  return (await Promise.all(homes.map(readHome))).filter((jdk) => jdk !== undefined);
}

async function readHome(home: string): Promise<Jdk | undefined> {
  try {
    await access(join(home, 'bin', 'java'));
    const version = javaVersionOf(await readFile(join(home, 'release'), 'utf8'));
    return version === undefined ? undefined : { home, version };
  } catch {
    return undefined; // not a Java home
  }
}

export interface ToolOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** The package to install when the command is missing. */
  readonly missing?: string;
  /** The user it runs as. Default: this process's user. */
  readonly uid?: number;
  readonly gid?: number;
}

/** Runs a command to its end. Rejects with its output when it fails. */
export function runTool(command: string, args: readonly string[], options: ToolOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (error: Error | null, stdout: string, stderr: string) => {
      if (error === null) return resolve();
      if ('code' in error && error.code === 'ENOENT')
        return reject(new EngineMissing(`no ${command} on the PATH: ${options.missing ?? 'install it'}`));
      reject(new EngineFailed(`${command} failed:\n${stdout}${stderr}`, { cause: error }));
    };
    const { env, cwd, uid, gid } = options;
    execFile(command, [...args], { env: { ...env }, cwd, uid, gid, maxBuffer: 64 * 1024 * 1024 }, settle);
  });
}
