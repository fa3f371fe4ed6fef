import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Confinement } from '@tributary/core';
import type { Config } from '../config/settings.ts';

const FOLDERS = ['/usr/bin', '/bin', '/usr/sbin', '/sbin'];

/**
 * Limits of confined processes: no core files, no byte written to any file, few descriptors, and a bound on the
 * processes and threads of their user, which root's own is not subject to.
 */
const LIMITS = ['--core=0:0', '--fsize=0:0', '--nofile=256:256'];
const PROCESS_LIMIT = '--nproc=4096:4096';

let found: readonly string[] | undefined;

/**
 * How processes with other people's code are confined: by another user where this process is root's, and by what
 * util-linux has (`setpriv`, `prlimit`). Each program is tried once: one that is missing or refuses is left out.
 */
export function confinementOf({ sandboxUid: uid }: Pick<Config, 'sandboxUid'>): Confinement {
  found ??= [...tried('setpriv', ['--no-new-privs']), ...tried('prlimit', LIMITS)];
  const hasOwnUser = process.getuid?.() === 0 && uid !== 0;
  const limitsProcesses = hasOwnUser && found.includes(LIMITS[0] ?? '');
  return { uid, wrapper: limitsProcesses ? [...found, PROCESS_LIMIT] : found };
}

function tried(name: string, args: readonly string[]): readonly string[] {
  const program = FOLDERS.map((folder) => join(folder, name)).find((path) => existsSync(path));
  if (program === undefined) return [];
  const { status } = spawnSync(program, [...args, 'true'], {
    env: { PATH: FOLDERS.join(':') },
    stdio: 'ignore',
  });
  return status === 0 ? [program, ...args] : [];
}
