import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { inherited, pidOf } from './child.ts';

const MAIN = fileURLToPath(new URL('../../infra/runtime/main.ts', import.meta.url));
/** As the script `infra/runtime/tributary` starts Node. */
const NODE_FLAGS = ['--max-semi-space-size=16', '--disable-warning=ExperimentalWarning'];
const NODE_ENVIRONMENT = { MALLOC_ARENA_MAX: '2' };
const START_TIMEOUT_MS = 150_000;
const END_WITHIN_MS = 1_000;

/** A command of `tributary` in a separate process, with the given environment and no other; `main` is of another release. */
export class ServerProcess {
  readonly #child;
  readonly #exited: Promise<number | null>;
  #printed = '';
  #log = '';
  readonly #waiting = new Set<() => void>();

  constructor(command: readonly string[], env: Readonly<Record<string, string>>, main = MAIN) {
    const drain = main === MAIN ? { TRIBUTARY_DRAIN: '0s' } : {};
    this.#child = spawn(process.execPath, [...NODE_FLAGS, main, ...command], {
      env: { ...NODE_ENVIRONMENT, ...inherited(), HOST: '127.0.0.1', PORT: '0', ...drain, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#exited = new Promise((resolve) => this.#child.once('close', (code) => resolve(code)));
    void this.#exited.then(() => this.#wake());
    this.#child.stdout.on('data', (chunk: Buffer) => {
      this.#printed += chunk.toString('utf8');
      this.#wake();
    });
    this.#child.stderr.on('data', (chunk: Buffer) => {
      this.#log += chunk.toString('utf8');
      this.#wake();
    });
  }

  get pid(): number {
    return pidOf(this.#child);
  }

  /** All its log output, i.e. its standard error. */
  get log(): string {
    return this.#log;
  }

  /** All its standard output. */
  get output(): string {
    return this.#printed;
  }

  /** Resolves to the first match in its standard output; rejects when it ended before, or took too long. */
  printed(pattern: RegExp): Promise<RegExpExecArray> {
    return this.#found(pattern, () => this.#printed);
  }

  /** The same for its log. */
  logged(pattern: RegExp): Promise<RegExpExecArray> {
    return this.#found(pattern, () => this.#log);
  }

  /** SIGKILL, and waits until it is gone. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }

  /** SIGTERM, if it still runs; resolves to its exit code. */
  stop(): Promise<number | null> {
    if (!this.#isGone) this.#child.kill('SIGTERM');
    return this.#exited;
  }

  /** SIGTERM, after which Node stores what it compiled, and SIGKILL where deliveries in flight hold it up. */
  async end(): Promise<void> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), END_WITHIN_MS);
    await this.stop();
    clearTimeout(timer);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Its exit code, once it ended on its own. */
  ended(): Promise<number | null> {
    return this.#exited;
  }

  get #isGone(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  async #found(pattern: RegExp, text: () => string): Promise<RegExpExecArray> {
    const deadline = Date.now() + START_TIMEOUT_MS;
    for (;;) {
      const match = pattern.exec(text());
      if (match !== null) return match;
      const said = `${this.#printed}\n${this.#log}`;
      if (this.#isGone) {
        await this.#exited;
        const late = pattern.exec(text());
        if (late !== null) return late;
        throw new Error(`it ended with code ${this.#child.exitCode} without ${pattern}:\n${said}`);
      }
      if (Date.now() > deadline) throw new Error(`no ${pattern} in time:\n${said}`);
      await this.#change(deadline);
    }
  }

  #change(deadline: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, deadline - Date.now());
      this.#waiting.add(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }
}
