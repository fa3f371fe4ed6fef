import { type ChildProcess, spawn } from 'node:child_process';
import { setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import { confinedCommand, MAX_EVENT_BYTES, MAX_OUTPUTS, OUTPUT_ROOM_BYTES } from '@tributary/core';
import { encodeFrame, type Frame, FrameReader } from './frames.ts';
import type { SandboxLimits, WorkerSettings } from './limits.ts';

const MAIN = fileURLToPath(new URL('./worker/main.ts', import.meta.url));
const FOLDER = fileURLToPath(new URL('.', import.meta.url));
/** isolated-vm needs the first; the second bounds the worker's own heap, isolates have their own limit. */
const NODE_FLAGS = [
  '--no-node-snapshot',
  '--max-old-space-size=128',
  // isolated-vm itself; Node warns of it at each start.
  '--allow-addons',
  '--disable-warning=PERM0001',
];
/** isolated-vm looks there which of its builds to load. */
const ALPINE = '/etc/alpine-release';
/** One that stands back takes up one core, not also those that V8 would compile and collect on. */
const ONE_CORE_FLAGS = ['--single-threaded', '--v8-pool-size=1'];
/** The least priority that the system offers. */
const LOWEST = 19;
/** What a worker may say before it dies, for the log. */
const MAX_STDERR_CHARS = 2_000;

export interface WorkerStart {
  readonly node: string;
  readonly limits: SandboxLimits;
  /** It runs with what the others leave. */
  readonly standsBack: boolean;
  /** Starts it with fewer rights, see `Confinement`. */
  readonly wrapper: readonly string[];
  /** Whom it runs as; this process's own user when absent. */
  readonly uid?: number;
  readonly gid?: number;
}

export interface WorkerEvents {
  frame(frame: Frame): void;
  /** Once, after the last frame: it has exited, or could not be started. `detail` is for the log. */
  gone(detail: string): void;
}

/** A worker as its host sees it: a process with nothing but two pipes, which dies with its host. */
export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #frames = new FrameReader();
  readonly #events: WorkerEvents;
  readonly #gone = Promise.withResolvers<void>();
  #isGone = false;
  #said = '';

  /** Throws when the system refuses to start any process. */
  constructor({ node, limits, standsBack, wrapper, ...user }: WorkerStart, events: WorkerEvents) {
    this.#events = events;
    const flags = [...NODE_FLAGS, ...(standsBack ? ONE_CORE_FLAGS : [])];
    const args = [JSON.stringify(settingsOf(limits))];
    const [command, all] = confinedCommand(
      { node, flags, script: MAIN, folder: FOLDER, readable: [ALPINE], args },
      wrapper,
    );
    this.#child = spawn(command, [...all], {
      stdio: ['pipe', 'pipe', 'pipe'],
      // Isolates take their zone from the process that makes them.
      env: { TZ: 'UTC' },
      cwd: '/',
      detached: false,
      windowsHide: true,
      ...user,
    });
    if (standsBack && this.#child.pid !== undefined) stepBack(this.#child.pid);
    this.#child.once('error', (error) => this.#end(error.message));
    this.#child.once('close', (code, signal) => this.#end(signal ?? `exit code ${code}`));
    this.#child.stdin?.on('error', () => this.kill());
    this.#child.stdout?.on('data', (piece: Buffer) => this.#read(piece));
    this.#child.stderr?.on('data', (piece: Buffer) => {
      if (this.#said.length < MAX_STDERR_CHARS) this.#said += piece.toString('utf8', 0, MAX_STDERR_CHARS);
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Resolves once the process is gone. */
  get gone(): Promise<void> {
    return this.#gone.promise;
  }

  /**
   * From now on others that wake up run at once, where they would wait for the end of a slice of whoever has the lowest
   * priority. For a worker that has come up, as a start takes some of a core. Where the system does not let it, that
   * priority is all. The worker itself may start no process.
   */
  runWhenIdle(): void {
    const { pid } = this.#child;
    if (pid === undefined || this.#isGone) return;
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' };
    const chrt = spawn('chrt', ['-a', '-i', '-p', '0', String(pid)], { env, stdio: 'ignore' });
    chrt.on('error', () => {}); // the system has none
  }

  send(frame: Frame): void {
    this.#child.stdin?.write(encodeFrame(frame));
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  #read(piece: Buffer): void {
    try {
      for (const frame of this.#frames.push(piece)) this.#events.frame(frame);
    } catch (error) {
      this.#said += ` unreadable: ${String(error)}`;
      this.kill();
    }
  }

  #end(how: string): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#gone.resolve();
    this.#events.gone(`${how} ${this.#said.slice(0, MAX_STDERR_CHARS)}`.trim());
  }
}

/** A child that is gone already, or a system that does not let it, leaves nothing to do. */
function stepBack(pid: number): void {
  try {
    setPriority(pid, LOWEST);
  } catch (error) {
    if (!isSystemError(error)) throw error;
  }
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_SYSTEM_ERROR';
}

function settingsOf(limits: SandboxLimits): WorkerSettings {
  return {
    limits,
    output: {
      maxOutputs: MAX_OUTPUTS,
      maxEventBytes: MAX_EVENT_BYTES,
      outputRoomBytes: OUTPUT_ROOM_BYTES,
      maxMessageChars: 500,
      maxLogLines: 100,
      maxLogChars: 1024,
      sliceMs: limits.sliceMs,
      sliceChars: 1024 * 1024,
    },
  };
}
