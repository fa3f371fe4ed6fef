import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EngineMissing } from '../engine.ts';

export interface Jdk {
  readonly home: string;
  /** The feature release, e.g. 21. */
  readonly version: number;
}

/** Where to look: homes are taken in their order, folders of homes after them. */
export interface JavaPlaces {
  readonly javaHomes: readonly string[];
  readonly jvmFolders: readonly string[];
}

/**
 * The first of the homes that is new enough, else the oldest one new enough below the folders: the closest to what an
 * engine was built for. Only homes with a compiler count.
 */
export async function findJdk(places: JavaPlaces, minimum: number): Promise<Jdk | undefined> {
  const enough = ({ version }: Jdk) => version >= minimum;
  const named = (await readHomes(places.javaHomes)).find(enough);
  if (named !== undefined) return named;
  const homes = await Promise.all(places.jvmFolders.map(homesIn));
  const found = (await readHomes(homes.flat())).filter(enough);
  return found.sort((a, b) => a.version - b.version)[0];
}

export async function needJdk(places: JavaPlaces, minimum: number, engine: string): Promise<Jdk> {
  const jdk = await findJdk(places, minimum);
  if (jdk !== undefined) return jdk;
  throw new EngineMissing(
    `${engine} needs a JDK ${minimum} or newer: install one below ${places.jvmFolders.join(' or ')}, or set JAVA_HOME`,
  );
}

/** The feature release that a Java home's `release` file tells, or undefined. */
export function javaVersionOf(release: string): number | undefined {
  const [, legacy, feature] = /^JAVA_VERSION="(1\.)?(\d+)/m.exec(release) ?? [];
  return feature === undefined || legacy !== undefined ? undefined : Number(feature);
}

async function homesIn(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).sort().map((name) => join(folder, name));
  } catch {
    return []; // no such folder: no Java in it
  }
}

async function readHomes(homes: readonly string[]): Promise<Jdk[]> {
  return (await Promise.all(homes.map(readHome))).filter((jdk) => jdk !== undefined);
}

async function readHome(home: string): Promise<Jdk | undefined> {
  try {
    await access(join(home, 'bin', 'javac'));
    const version = javaVersionOf(await readFile(join(home, 'release'), 'utf8'));
    return version === undefined ? undefined : { home, version };
  } catch {
    return undefined; // not the home of a JDK
  }
}
