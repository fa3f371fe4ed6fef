import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { stripVTControlCharacters } from 'node:util';

/** Why there are no terminals here; undefined where `script` of util-linux opens them. */
export function whyNoTerminal(): string | undefined {
  try {
    const version = execFileSync('script', ['--version'], { encoding: 'utf8' });
    return version.includes('util-linux') ? undefined : 'script is not that of util-linux';
  } catch {
    return 'there is no script (util-linux)';
  }
}

export interface TerminalOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const FOUND_WITHIN_MS = 150_000;

/**
 * `script` takes the shell from the environment. Some are killed by the Ctrl-C of a command that ends well, and hide its
 * exit code; bash is not.
 */
const IN_BASH = 'exec bash -c "$TERMINAL_COMMAND"';

/** A command of bash in a terminal of its own, as a person sees it. */
export class Terminal {
  readonly #child: ChildProcess;
  readonly #ended: Promise<number | null>;
  #received = '';

  constructor(command: string, { cwd, env }: TerminalOptions) {
    this.#child = spawn('script', ['--quiet', '--return', '--command', IN_BASH, '/dev/null'], {
      cwd,
      env: { ...env, TERMINAL_COMMAND: command },
      stdio: 'pipe',
    });
    this.#ended = new Promise((resolve) => this.#child.once('close', (code) => resolve(code)));
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#received += text;
      });
  }

  /** All that it has shown, without control sequences: of the whole, as one may arrive in two parts. */
  get shown(): string {
    return stripVTControlCharacters(this.#received).replaceAll('\r', '');
  }

  /** Resolves to the first match; rejects when the command has ended without it, or takes too long. */
  async shows(pattern: RegExp, withinMs = FOUND_WITHIN_MS): Promise<RegExpExecArray> {
    const signal = AbortSignal.timeout(withinMs);
    const stdout = this.#child.stdout as NodeJS.ReadableStream;
    for (;;) {
      const found = pattern.exec(this.shown);
      if (found !== null) return found;
      const hasEnded = this.#child.exitCode !== null || this.#child.signalCode !== null;
      if (hasEnded || signal.aborted) throw new Error(`it never showed ${pattern}:\n${this.shown}`);
      await Promise.race([once(stdout, 'data', { signal }), this.#ended]).catch((error: unknown) => {
        if (!signal.aborted) throw error;
      });
    }
  }

  /** The keys that a person presses. */
  press(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  /** Resolves to the exit code of the command. */
  ended(): Promise<number | null> {
    return this.#ended;
  }

  /** Presses Ctrl-C, and resolves to the exit code. */
  interrupt(): Promise<number | null> {
    this.press('\x03');
    return this.#ended;
  }

  /** Ends the command if it still runs; its processes get SIGHUP. */
  async close(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}
