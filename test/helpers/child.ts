import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/**
 * A child process of a test: it runs a script, reports its results as lines of JSON, and can be killed at any
 * moment. A script waits for `go` where several must start together.
 */
export class Child {
  readonly #process;
  readonly #ended: Promise<number | null>;
  readonly #lines: unknown[] = [];
  #errors = '';
  #wake = () => {};

  constructor(script: URL, args: readonly string[]) {
    this.#process = spawn(
      process.execPath,
      ['--disable-warning=ExperimentalWarning', fileURLToPath(script), ...args],
      {
        stdio: ['pipe', 'pipe', 'pipe'],
      },
    );
    this.#process.stderr.on('data', (text) => {
      this.#errors += String(text);
    });
    this.#process.stdin.on('error', () => {});
    createInterface({ input: this.#process.stdout }).on('line', (line) => {
      try {
        this.#lines.push(JSON.parse(line));
      } catch {
        // The last line may be cut short by a kill.
      }
      this.#wake();
    });
    this.#ended = once(this.#process, 'close').then(([code]) => {
      this.#wake();
      return code;
    });
  }

  /** All lines so far. Those of a killed child are complete after `kill`. */
  get lines(): readonly unknown[] {
    return this.#lines;
  }

  /** Resolves once it wrote `count` lines; rejects with its errors when it ended before. */
  async wrote(count: number): Promise<readonly unknown[]> {
    while (this.#lines.length < count) {
      if (this.#process.exitCode !== null || this.#process.signalCode !== null)
        throw new Error(`the child ended after ${this.#lines.length} lines: ${this.#errors}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#lines;
  }

  go(): void {
    this.#process.stdin.write('go\n');
  }

  /** SIGKILL: it gets no chance to finish anything. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#ended;
  }

  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  /** Its exit code at its end; null after a signal. */
  ended(): Promise<number | null> {
    return this.#ended;
  }

  /** Waits for its end; rejects on failure. */
  async finished(): Promise<readonly unknown[]> {
    await this.#ended;
    if (this.#process.exitCode !== 0) throw new Error(`the child failed: ${this.#errors}`);
    return this.#lines;
  }
}

const PAUSE = new Int32Array(new SharedArrayBuffer(4));

/** In the script: writes one line synchronously, so that a kill loses no line. */
export function tell(line: unknown): void {
  for (let left = Buffer.from(`${JSON.stringify(line)}\n`); left.length > 0; ) {
    try {
      left = left.subarray(writeSync(1, left));
    } catch (error) {
      // The reader is behind: the pipe is full.
      if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) throw error;
      Atomics.wait(PAUSE, 0, 0, 1);
    }
  }
}

/** In the script: resolves when the test sends `go`. */
export async function told(): Promise<void> {
  await once(process.stdin, 'data');
  process.stdin.unref();
  process.stdin.destroy();
}

/**
 * The variables that a child with its own environment still inherits from this process: the paths of commands
 * and of compiled output.
 */
export function inherited(): Readonly<Record<string, string>> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { ...(PATH && { PATH }), ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) };
}

/** The environment of this process for a shell that runs Tributary, which refuses unknown variables. */
export function withoutTestSettings(): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('TRIBUTARY_TEST_')),
  );
}

/** Throws if the process was never started. A signal to 0 instead would go to the whole process group of the tests. */
export function pidOf({ pid, spawnfile }: ChildProcess): number {
  if (pid === undefined) throw new Error(`${spawnfile} was not started`);
  return pid;
}
