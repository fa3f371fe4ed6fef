import { spawnSync } from 'node:child_process';
import { lstatSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A fresh folder below the system's temporary one, with a function to remove it. */
export async function temporaryFolder(): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'tributary-'));
  return { path, remove: () => rm(path, { recursive: true, force: true, maxRetries: 5 }) };
}

/**
 * Every path of a folder, including itself, with permissions for other users of the machine, with its mode.
 */
export function openEntries(folder: string): readonly string[] {
  return [folder, ...pathsIn(folder)].flatMap((path) => {
    const { mode } = lstatSync(path);
    return (mode & 0o077) === 0 ? [] : [`${path} ${(mode & 0o7777).toString(8)}`];
  });
}

export function pathsIn(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name));
}

/** A file system of its own in memory, below a temporary folder. */
export interface SmallDisk {
  readonly path: string;
  /** Mounts it again, read-only or writable. */
  remount(mode: 'ro' | 'rw'): void;
  remove(): Promise<void>;
}

function mount(...words: readonly string[]): string | undefined {
  const { status, stderr, error } = spawnSync('mount', words, { encoding: 'utf8' });
  return status === 0 ? undefined : (error?.message ?? stderr.trim());
}

/** Why no file system can be mounted here; undefined where one can. Mounting needs root, which some containers lack too. */
export async function whyNoMounts(): Promise<string | undefined> {
  const folder = await temporaryFolder();
  try {
    const fault = mount('-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder.path);
    if (fault === undefined) spawnSync('umount', [folder.path]);
    return fault;
  } finally {
    await folder.remove();
  }
}

export async function mountSmallDisk(mib: number): Promise<SmallDisk> {
  const parent = await temporaryFolder();
  const path = join(parent.path, 'disk');
  await mkdir(path);
  const fault = mount('-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', path);
  if (fault !== undefined) throw new Error(`no disk of ${mib} MiB can be mounted: ${fault}`);
  return {
    path,
    remount(mode) {
      const failed = mount('-o', `remount,${mode}`, path);
      if (failed !== undefined) throw new Error(`the disk cannot be mounted ${mode}: ${failed}`);
    },
    async remove() {
      const { status, stderr } = spawnSync('umount', [path], { encoding: 'utf8' });
      if (status !== 0) throw new Error(`the disk is still in use: ${stderr}`);
      await rm(parent.path, { recursive: true, force: true });
    },
  };
}
