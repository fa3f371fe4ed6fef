import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Writable } from 'node:stream';

/**
 * Reads the pid to watch, line by line (an empty line: none), until its input ends: by `release`, or because
 * its parent ended in any way. Then it kills the last pid and removes the folder; the files of a dying
 * process may still change for a moment, so it retries for up to ten seconds.
 */
const SCRIPT = `
pid=
while read -r line; do pid=$line; done
[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
tries=0
until rm -rf -- "$1" 2>/dev/null || [ "$tries" -ge 100 ]; do tries=$((tries + 1)); sleep 0.1; done
`;

/**
 * A tiny process beside an engine that ends it and removes its folder when this process ends without cleaning
 * up.
 */
export class Guard {
  readonly #shell: ChildProcess;
  readonly #input: Writable;
  readonly #ended: Promise<unknown>;

  constructor(folder: string) {
    // A session of its own, so that Ctrl-C in a terminal reaches the launcher and not the guard.
    const shell = spawn('/bin/sh', ['-c', SCRIPT, 'tributary-guard', folder], {
      cwd: '/',
      env: { PATH: '/usr/bin:/bin' },
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    this.#shell = shell;
    this.#input = shell.stdin;
    this.#input.on('error', () => {}); // killed by hand: nothing is guarded then
    this.#ended = once(shell, 'exit');
    this.#ended.catch(() => {}); // awaited by `release`
    shell.unref();
  }

  watch(pid: number | undefined): void {
    this.#input.write(`${pid ?? ''}\n`);
  }

  /** Ends the watched process, removes the folder, and resolves once that is done. */
  async release(): Promise<void> {
    this.#shell.ref();
    this.#input.end();
    await this.#ended;
  }
}
