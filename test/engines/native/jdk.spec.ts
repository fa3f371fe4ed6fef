import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EngineMissing } from '../engine.ts';
import { findJdk, javaVersionOf, needJdk } from './jdk.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'tributary-jdk-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function install(home: string, version: string, programs: readonly string[] = ['java', 'javac']): string {
  const folder = join(root, home);
  mkdirSync(join(folder, 'bin'), { recursive: true });
  writeFileSync(join(folder, 'release'), `IMPLEMENTOR="Somebody"\nJAVA_VERSION="${version}"\n`);
  for (const program of programs) {
    writeFileSync(join(folder, 'bin', program), '');
    chmodSync(join(folder, 'bin', program), 0o755);
  }
  return folder;
}

const need = { engine: 'An engine', minimum: 21 };
const find = (javaHomes: readonly string[]) =>
  findJdk({ javaHomes, jvmFolders: [join(root, 'jvm'), join(root, 'no-such-folder')] }, need);

describe('finding a JDK', () => {
  it('uses the home that the variable names when it is new enough', async () => {
    install('jvm/jdk-21', '21.0.4');
    const home = install('mine', '25.0.1');
    expect(await find([home])).toEqual({ home, version: 25 });
  });

  it('passes over a named home that is too old', async () => {
    const home = install('jvm/jdk-21', '21.0.4');
    expect(await find([install('mine', '17.0.15')])).toEqual({ home, version: 21 });
  });

  it('uses the oldest one of the system that is new enough', async () => {
    install('jvm/a', '25');
    const home = install('jvm/b', '21.0.4');
    install('jvm/c', '17.0.15');
    expect(await find([])).toEqual({ home, version: 21 });
  });

  it('passes over a home without a java, and accepts a runtime without a compiler', async () => {
    install('jvm/a', '21.0.4', []);
    const home = install('jvm/b', '25.0.1', ['java']);
    expect(await find([])).toEqual({ home, version: 25 });
  });

  it('states which package to install where none exists', async () => {
    install('jvm/a', '17.0.15');
    const missing = needJdk({ javaHomes: [], jvmFolders: [join(root, 'jvm')] }, need);
    await expect(missing).rejects.toThrow(EngineMissing);
    await expect(missing).rejects.toThrow(/An engine needs Java 21 or newer/);
  });

  it.each([
    ['JAVA_VERSION="25"', 25],
    ['OS_ARCH="x86_64"\nJAVA_VERSION="21.0.4"\n', 21],
    ['JAVA_VERSION="1.8.0_402"', undefined],
    ['', undefined],
  ])('reads the feature release of %j as %s', (release, version) => {
    expect(javaVersionOf(release)).toBe(version);
  });
});
