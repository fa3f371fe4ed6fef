import { posix } from 'node:path';
import type { Logger } from '../ports/logger.ts';

/** How this machine confines child processes that run user code. The runtime detects it. */
export interface Confinement {
  /** The user and group of child processes where this process is root's; 0: this process's own. */
  readonly uid: number;
  /** A command that starts another one with fewer rights, e.g. `setpriv --no-new-privs`; empty without one. */
  readonly wrapper: readonly string[];
}

export const NO_CONFINEMENT: Confinement = { uid: 0, wrapper: [] };

interface ConfinedProgram {
  readonly node: string;
  readonly flags: readonly string[];
  /** Absolute path of the script. */
  readonly script: string;
  /** The folder with all own files that the program loads. */
  readonly folder: string;
  readonly readable?: readonly string[];
  readonly args?: readonly string[];
}

/** When memory runs out, the system kills the process with the highest score; a process may raise its own. */
const OOM_SCORE_FILE = '/proc/self/oom_score_adj';

/**
 * The command of a confined program, and its arguments. Node's permission model lets its JavaScript read the
 * program's own folder and the packages, and write its OOM score: no other file (of the data folder, `/proc` or
 * `/tmp`), no child process, no thread. This also holds where the program runs as this process's own user, which file
 * modes do not stop. It does not hold against native code, which the other user and the wrapper restrict.
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

function packageFolders(script: string): readonly string[] {
  const folders: string[] = [];
  for (let folder = posix.dirname(script); ; folder = posix.dirname(folder)) {
    folders.push(posix.join(folder, 'node_modules'));
    if (folder === posix.dirname(folder)) return folders;
  }
}

/** Failed starts as another user before child processes run as this process's user. */
const TRIES = 2;
/** Failures that are not about permissions: the start was too slow and killed, or the system was out of resources. */
const PASSING = /^SIG|EAGAIN|ENOMEM/;

interface ChildUserOptions {
  /** The user, and the group with the same number; 0: this process's own. */
  readonly uid: number;
  /** Whether this process runs as root: only root may start processes as another user. */
  readonly isRoot: boolean;
  /** The name of these processes in the log. */
  readonly children: string;
  readonly logger: Logger;
}

/**
 * Chooses the user of child processes that run user code. Another user may be unable to read what they need (a
 * checkout below `/root`, a node binary of root's own). Then they run as this process's user, with one warning in the
 * log; all other limits still apply. Once a child process has started as another user, this is kept.
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

  get identity(): { readonly uid?: number; readonly gid?: number } {
    return this.#uid === undefined ? {} : { uid: this.#uid, gid: this.#uid };
  }

  worked(): void {
    this.#hasWorked = true;
  }

  /** Records a failed start. True when the next process will run as another user than this one. */
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
