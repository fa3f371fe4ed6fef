import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { withoutTestSettings } from '../helpers/child-environment.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * A shell in the folder of the project, as a reader has it: variables set by one block are visible in the
 * next.
 */
export class Shell {
  readonly #bash: ChildProcess;
  #output = '';
  #blocks = 0;

  constructor(env: Readonly<Record<string, string>>) {
    this.#bash = spawn('bash', ['-s'], {
      cwd: ROOT,
      env: { ...withoutTestSettings(), ...env },
      stdio: 'pipe',
    });
    for (const stream of [this.#bash.stdout, this.#bash.stderr])
      stream?.on('data', (chunk: Buffer) => {
        this.#output += chunk.toString('utf8');
      });
  }

  /** Runs a block; resolves to its output lines, including standard error. */
  async run(code: string): Promise<readonly string[]> {
    const end = `block ${++this.#blocks} has ended`;
    const before = this.#output.length;
    this.#bash.stdin?.write(`${code}\necho; echo '${end}'\n`);
    const printed = () => this.#output.slice(before);
    while (!printed().includes(end)) {
      if (this.#bash.exitCode !== null) throw new Error(`the shell has ended: ${printed()}`);
      await Promise.race([
        once(this.#bash.stdout as NodeJS.ReadableStream, 'data'),
        once(this.#bash, 'exit'),
      ]);
    }
    return printed()
      .split('\n')
      .filter((line) => line !== '' && line !== end);
  }

  async close(): Promise<void> {
    this.#bash.stdin?.end();
    if (this.#bash.exitCode === null) await once(this.#bash, 'exit');
  }
}
