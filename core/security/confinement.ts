import { posix } from 'node:path';
import type { Logger } from '../ports/observability.ts';

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

/** Starts as another user that fail before child processes run as this process does. */
const TRIES = 2;
/** Ends of a start that say nothing of permissions: it was too slow and killed, or the system had no room. */
const PASSING = /^SIG|EAGAIN|ENOMEM/;

export interface ChildUserOptions {
  /** The user, and the group of the same number; 0 is this process's own. */
  readonly uid: number;
  /** Whether this process is root's: only root may start processes as another user. */
  readonly isRoot: boolean;
  /** What runs as that user, for the log. */
  readonly children: string;
  readonly logger: Logger;
}

/**
 * The user that child processes with other people's code run as. Another user may not be able to read what they need (a
 * checkout below `/root`, a node binary of root's own). Then they run as this process does, and one line of the log says
 * so: the other limits hold all the same. Once a child process has come up as another user, it stays with that.
 */
export class ChildUser {
  readonly #options: ChildUserOptions;
  #uid: number | undefined;
  #hasWorked = false;
  #failed = 0;

  constructor(options: ChildUserOptions) {
    this.#options = options;
    this.#uid = options.uid !== 0 && options.isRoot ? options.uid : undefined;
  }

  /** What a process is started with. */
  get identity(): { readonly uid?: number; readonly gid?: number } {
    return this.#uid === undefined ? {} : { uid: this.#uid, gid: this.#uid };
  }

  worked(): void {
    this.#hasWorked = true;
  }

  /** A child process did not start. True when the next one runs as another user than this one did. */
  failed(detail: string): boolean {
    if (this.#uid === undefined || this.#hasWorked || PASSING.test(detail)) return false;
    this.#failed += 1;
    if (this.#failed < TRIES) return false;
    const { children, logger } = this.#options;
    logger.warn(
      { children, uid: this.#uid, detail },
      'child processes cannot run as another user: they run as this process does',
    );
    this.#uid = undefined;
    return true;
  }
}
