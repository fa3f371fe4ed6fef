import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { withoutTestSettings } from '../helpers/child-environment.ts';
import { pidOf } from '../helpers/pid-of.ts';

/** The text that a command that fails outside of a condition adds to the output of its block. */
const FAILED = 'FAILED';

/** A terminal: variables set by one block are there in the next. */
export class Shell {
  readonly #bash: ChildProcess;
  #output = '';
  #blocks = 0;
  #changed = Promise.withResolvers<void>();

  constructor(folder: string, env: Readonly<Record<string, string>>) {
    this.#bash = spawn('bash', ['--norc', '-s'], {
      cwd: folder,
      env: { ...withoutTestSettings(), ...env },
      stdio: 'pipe',
      // With a process group of its own, so that what blocks leave in the background ends with it.
      detached: true,
    });
    this.#bash.stdout?.on('data', (chunk: Buffer) => {
      this.#output += chunk.toString('utf8');
      this.#wake();
    });
    this.#bash.once('exit', () => this.#wake());
    this.#bash.stdin?.write(
      `exec 2>&1\nset -E -o pipefail\ntrap 'echo "${FAILED} ($?): $BASH_COMMAND" >&2' ERR\n`,
    );
  }

  /** Runs a block; resolves to what it printed, with a line for each command that failed. */
  async run(code: string): Promise<string> {
    const end = `block ${++this.#blocks} has ended`;
    const before = this.#output.length;
    this.#bash.stdin?.write(`${code}\necho; echo '${end}'\n`);
    const printed = () => this.#output.slice(before);
    while (!printed().includes(end)) {
      if (this.#bash.exitCode !== null) throw new Error(`the shell has ended: ${printed()}`);
      await this.#changed.promise;
    }
    // The shell tells of background processes that a block ended, as it does in a terminal.
    return printed()
      .split('\n')
      .filter((line) => line !== '' && line !== end && !/: line \d+: +\d+ Terminated/.test(line))
      .map((line) => `${line}\n`)
      .join('');
  }

  async close(): Promise<void> {
    this.#bash.stdin?.end();
    if (this.#bash.exitCode === null) await once(this.#bash, 'exit');
    try {
      process.kill(-pidOf(this.#bash), 'SIGTERM');
    } catch {
      // Nothing was left in the background.
    }
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
