import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EngineMissing } from '../engine.ts';

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
