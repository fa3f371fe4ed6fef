import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

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
