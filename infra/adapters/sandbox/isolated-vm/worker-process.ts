import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import {
  confinedCommand,
  hasCode,
  MAX_EVENT_BYTES,
  MAX_OUTPUTS,
  OUTPUT_ROOM_BYTES,
  SANDBOX_LOG_LEVELS,
} from '@tributary/core';
import {
  type Entry,
  encodeFrame,
  type Frame,
  FrameReader,
  type LoadFault,
  type LogLine,
  NOT_TERMINATED,
  type Report,
  type SandboxLimits,
  type WorkerSettings,
} from './protocol.ts';

const MAIN = fileURLToPath(new URL('./worker/main.ts', import.meta.url));
const FOLDER = fileURLToPath(new URL('.', import.meta.url));
/** isolated-vm needs the first. The second bounds the worker's own heap; isolates have limits of their own. */
const NODE_FLAGS = [
  '--no-node-snapshot',
  '--max-old-space-size=128',
  // For isolated-vm; Node would warn about it at each start.
  '--allow-addons',
  '--disable-warning=PERM0001',
];
/** isolated-vm reads this file to decide which of its builds to load. */
const ALPINE = '/etc/alpine-release';
/** A worker of low priority uses one core, without V8's threads for compilation and garbage collection. */
const ONE_CORE_FLAGS = ['--single-threaded', '--v8-pool-size=1'];
/** The lowest priority of the system (nice value). */
const LOWEST = 19;
/**
 * By so much the nice value of other workers is above the host's: code of tenants that keeps a core busy leaves three quarters
 * of it to what serves all of them, where that is short of cores.
 */
const LOWERED_BY = 5;
/** Most of a worker's stderr that is logged when it dies. */
const MAX_STDERR_CHARS = 2_000;

interface WorkerStart {
  readonly node: string;
  readonly limits: SandboxLimits;
  /** It runs on processor time that nothing else needs. */
  readonly isLowPriority: boolean;
  /** Command that starts it with fewer rights, see `Confinement`. */
  readonly wrapper: readonly string[];
  /** User of the process; this process's own by default. */
  readonly uid?: number;
  readonly gid?: number;
}

interface WorkerEvents {
  frame(frame: Frame): void;
  /**
   * Called once, after the last frame: the process has exited, or could not be started. `detail` is for the log. `isStuck`:
   * it ended itself because code went on after its time limit.
   */
  gone(detail: string, isStuck: boolean): void;
}

/** A worker process as seen by its host: connected by pipes only, it dies with the host. */
export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #frames = new FrameReader();
  readonly #events: WorkerEvents;
  readonly #gone = Promise.withResolvers<void>();
  #isGone = false;
  #stderr = '';

  /** Throws when the system refuses to start any process. */
  constructor({ node, limits, isLowPriority, wrapper, ...user }: WorkerStart, events: WorkerEvents) {
    this.#events = events;
    const flags = [...NODE_FLAGS, ...(isLowPriority ? ONE_CORE_FLAGS : [])];
    const args = [JSON.stringify(settingsOf(limits))];
    const [command, all] = confinedCommand(
      { node, flags, script: MAIN, folder: FOLDER, readable: [ALPINE], args },
      wrapper,
    );
    this.#child = spawn(command, [...all], {
      stdio: ['pipe', 'pipe', 'pipe'],
      // Isolates take their time zone from the process.
      env: { TZ: 'UTC' },
      cwd: '/',
      detached: false,
      windowsHide: true,
      ...user,
    });
    if (this.#child.pid !== undefined)
      lowerPriority(this.#child.pid, isLowPriority ? LOWEST : getPriority() + LOWERED_BY);
    this.#child.once('error', (error) => this.#end(error.message));
    this.#child.once('close', (code, signal) => this.#end(signal ?? `exit code ${code}`));
    this.#child.stdin?.on('error', () => this.kill());
    this.#child.stdout?.on('data', (piece: Buffer) => this.#read(piece));
    this.#child.stderr?.on('data', (piece: Buffer) => {
      if (this.#stderr.length < MAX_STDERR_CHARS) this.#stderr += piece.toString('utf8', 0, MAX_STDERR_CHARS);
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
   * Puts the worker into the scheduling class `idle`: other processes that wake up run at once, where they would else wait
   * for the end of its time slice. Called after the start, which takes a good part of a core. Without effect where the
   * system has no `chrt` or does not allow it. The host does it, because the worker itself may start no process.
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
      this.#stderr += ` unreadable: ${String(error)}`;
      this.kill();
    }
  }

  #end(how: string): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#gone.resolve();
    const stderr = this.#stderr.slice(0, MAX_STDERR_CHARS);
    this.#events.gone(`${how} ${stderr}`.trim(), stderr.includes(NOT_TERMINATED));
  }
}

/** Without effect if the child has exited, or if the system does not allow it. */
function lowerPriority(pid: number, nice: number): void {
  try {
    setPriority(pid, Math.min(nice, LOWEST));
  } catch (error) {
    if (!hasCode(error, 'ERR_SYSTEM_ERROR')) throw error;
  }
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

/** How often a worker with tasks is checked, ms. */
export const WATCH_EVERY_MS = 25;
/** A worker silent for this many times `watchdogMs` is dead (stopped, swapped out), whatever its processor time. */
const DEAD_FACTOR = 20;
/** Multiplies that time for a worker of low priority. */
const LOW_PRIORITY_FACTOR = 5;

/** Decides whether a worker must be killed for its oldest task. */
export class Watchdog {
  readonly #pid: number;
  readonly #limits: SandboxLimits;
  readonly #deadAfterMs: number;
  #task: object | undefined;
  #since = 0;
  #cpuBefore: number | undefined;

  constructor(pid: number, limits: SandboxLimits, isLowPriority: boolean) {
    this.#pid = pid;
    this.#limits = limits;
    this.#deadAfterMs = limits.watchdogMs * DEAD_FACTOR * (isLowPriority ? LOW_PRIORITY_FACTOR : 1);
  }

  /** The reason to kill the worker, if there is one. `now`: ms; `task`: its oldest task in flight. */
  check(task: object, now: number): 'timeout' | 'memory' | undefined {
    if (task !== this.#task) {
      this.#task = task;
      this.#since = now;
      this.#cpuBefore = cpuMs(this.#pid);
    }
    if ((residentMib(this.#pid) ?? 0) > this.#limits.processMib) return 'memory';
    return this.#isStuck(now - this.#since) ? 'timeout' : undefined;
  }

  #isStuck(silentMs: number): boolean {
    if (silentMs < this.#limits.watchdogMs) return false;
    if (silentMs >= this.#deadAfterMs || this.#cpuBefore === undefined) return true;
    const used = (cpuMs(this.#pid) ?? Number.POSITIVE_INFINITY) - this.#cpuBefore;
    return hasUsedItsTime(used, this.#limits);
  }
}

/**
 * Whether a silent worker is stuck in code. On a busy machine it may be silent because it does not get to run, so its
 * processor time (ms, of all its threads) decides. The time of one event is not enough for that: the worker also makes
 * the isolate of an event that runs alone and loads the program into it.
 */
export function hasUsedItsTime(usedMs: number, { watchdogMs }: SandboxLimits): boolean {
  return usedMs >= watchdogMs;
}

/** Linux reports processor time in hundredths of a second, on every architecture that Node runs on. */
const MS_PER_TICK = 10;

/** Resident memory of a process, MiB; undefined if it has exited or the system does not report it. */
function residentMib(pid: number): number | undefined {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readProc(pid, 'status') ?? '')?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) / 1024;
}

/** Processor time used by a process, ms; undefined if it has exited or the system does not report it. */
function cpuMs(pid: number): number | undefined {
  const stat = readProc(pid, 'stat');
  // The second field is a name in parentheses and may hold anything.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user, system] = [fields?.[11], fields?.[12]];
  return user === undefined || system === undefined
    ? undefined
    : (Number(user) + Number(system)) * MS_PER_TICK;
}

function readProc(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return undefined;
  }
}

/**
 * Parses a worker's report. The worker has run hostile code, so this throws unless the report has the expected shape and
 * its lengths match the body.
 */
export function parseReport({ head, body }: Frame): Report {
  const report: unknown = JSON.parse(head);
  if (!isReport(report)) throw new TypeError('a report of another shape');
  let used = 0;
  for (const [kind, , payload] of report.entries) if (kind === 0) for (const size of payload) used += size;
  if (used !== body.length) throw new RangeError('a report whose lengths do not fit');
  return report;
}

const STOPS: readonly unknown[] = ['ended', 'timeout', 'hung', 'memory', 'missing', 'unloadable'];

function isReport(value: unknown): value is Report {
  const report = value as Partial<Record<keyof Report, unknown>> | null;
  return (
    typeof report === 'object' &&
    report !== null &&
    STOPS.includes(report.stop) &&
    typeof report.wallMs === 'number' &&
    typeof report.cpuMs === 'number' &&
    typeof report.loadMs === 'number' &&
    (report.stop !== 'unloadable' || isFault(report.fault)) &&
    Array.isArray(report.entries) &&
    report.entries.every(isEntry)
  );
}

function isFault(value: unknown): value is LoadFault {
  const fault = value as Partial<Record<keyof LoadFault, unknown>> | undefined;
  return (
    typeof fault?.message === 'string' &&
    (fault.line === undefined || isLineOrColumn(fault.line)) &&
    (fault.column === undefined || isLineOrColumn(fault.column)) &&
    (fault.kind === 'compile' || fault.kind === 'timeout' || fault.kind === 'memory')
  );
}

function isEntry(value: unknown): value is Entry {
  if (!Array.isArray(value)) return false;
  const [kind, ms, payload, logs]: unknown[] = value;
  if (typeof ms !== 'number') return false;
  if (logs !== undefined && !(Array.isArray(logs) && logs.every(isLogLine))) return false;
  if (!Array.isArray(payload)) return false;
  if (kind === 0) return payload.every((size) => Number.isInteger(size) && size > 0);
  const [message, line, column]: unknown[] = payload;
  return (
    (kind === 'threw' || kind === 'output') &&
    typeof message === 'string' &&
    isLineOrColumn(line) &&
    isLineOrColumn(column)
  );
}

function isLogLine(value: unknown): value is LogLine {
  if (!Array.isArray(value)) return false;
  const [level, text]: unknown[] = value;
  return SANDBOX_LOG_LEVELS.some((known) => known === level) && typeof text === 'string';
}

function isLineOrColumn(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0;
}
