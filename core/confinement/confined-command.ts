import { posix } from 'node:path';

/** How this machine confines child processes that run other people's code. The runtime finds it out. */
export interface Confinement {
  /** The user and group they run as where this process is root's; 0 is this process's own. */
  readonly uid: number;
  /** A command that starts another one with fewer rights, e.g. `setpriv --no-new-privs`; empty where there is none. */
  readonly wrapper: readonly string[];
}

export const NO_CONFINEMENT: Confinement = { uid: 0, wrapper: [] };

export interface ConfinedProgram {
  readonly node: string;
  readonly flags: readonly string[];
  /** Absolute path of the script. */
  readonly script: string;
  /** The folder with all of our own files that it loads. */
  readonly folder: string;
  /** What else it reads. */
  readonly readable?: readonly string[];
  readonly args?: readonly string[];
}

/** When memory runs out, the system ends a process with the highest score first; a process may raise its own. */
export const OOM_SCORE_FILE = '/proc/self/oom_score_adj';

/**
 * The command of a confined program, and its arguments. Node's permission model lets its JavaScript read the program's
 * own folder and the packages, write its OOM score, and nothing else: no file of the data folder, of `/proc` or of
 * `/tmp`, no child process, no thread. That also holds where the program runs as this process's own user, which the data
 * folder's modes do not stop. It does not hold against native code: against that there is another user and the wrapper.
 */
export function confinedCommand(
  { node, flags, script, folder, readable: more = [], args = [] }: ConfinedProgram,
  wrapper: readonly string[],
): readonly [command: string, args: readonly string[]] {
  const readable = [folder, ...packageFolders(script), ...more].map((path) => `--allow-fs-read=${path}`);
  const writable = `--allow-fs-write=${OOM_SCORE_FILE}`;
  const [command = node, ...rest] = [...wrapper, node];
  return [command, [...rest, '--permission', ...readable, writable, ...flags, script, ...args]];
}

/** The folders Node looks for packages in, as seen from a script. */
function packageFolders(script: string): readonly string[] {
  const folders: string[] = [];
  for (let folder = posix.dirname(script); ; folder = posix.dirname(folder)) {
    folders.push(posix.join(folder, 'node_modules'));
    if (folder === posix.dirname(folder)) return folders;
  }
}
