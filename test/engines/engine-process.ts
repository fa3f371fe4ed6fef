import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { pidOf } from '../helpers/child.ts';
import { EngineFailed, EngineMissing, type RunningEngine } from './engine.ts';

const ENDS_WITHIN_MS = 20_000;
const LOG_TAIL_BYTES = 4_000;

/** The process of an engine, for its fresh temporary folder `folder`. */
export interface Command {
  readonly command: string;
  readonly args: readonly string[];
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
  /** True once it answers its clients. May also reject until then. */
  readonly isReady: () => Promise<boolean>;
  /** The package to install when the command is missing. */
  readonly missing: string;
  /** The signal that shuts it down cleanly. Default: SIGTERM. */
  readonly endsBy?: NodeJS.Signals;
  /** The user it runs as. Default: this process's user. */
  readonly uid?: number;
  readonly gid?: number;
}

export interface EngineStart {
  readonly name: string;
  readonly logFolder: string | undefined;
  /** Prepares the folder and returns the command to run in it. */
  readonly prepare: (folder: string) => Promise<Command>;
}

/** Starts an engine as a process of this machine, in a temporary folder. */
export async function startEngine({ name, logFolder, prepare }: EngineStart): Promise<RunningEngine> {
  const folder = await mkdtemp(join(tmpdir(), `tributary-${name}-`));
  const guard = new Guard(folder);
  try {
    if (logFolder !== undefined) await mkdir(logFolder, { recursive: true });
    const logFile = join(logFolder ?? folder, `${name}.log`);
    const engine = new EngineProcess(name, logFile, await prepare(folder), guard);
    await engine.restart();
    return engine;
  } catch (error) {
    await guard.release();
    throw error;
  }
}

class EngineProcess implements RunningEngine {
  readonly name: string;
  readonly url: string;
  readonly logFile: string;
  readonly #command: Command;
  readonly #guard: Guard;
  #process: ChildProcess | undefined;
  #stopped = false;

  constructor(name: string, logFile: string, command: Command, guard: Guard) {
    this.name = name;
    this.url = command.url;
    this.logFile = logFile;
    this.#command = command;
    this.#guard = guard;
  }

  get pid(): number {
    return pidOf(this.#running());
  }

  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async pause(): Promise<void> {
    const engine = this.#running();
    engine.kill('SIGSTOP');
    await untilHalted(pidOf(engine));
  }

  async resume(): Promise<void> {
    this.#running().kill('SIGCONT');
  }

  async restart(): Promise<void> {
    if (this.#stopped) throw new EngineFailed(`${this.name} was stopped, and its data are gone`);
    await this.#endOrderly();
    const engine = await this.#spawn();
    await this.#ready(engine);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#endOrderly();
    await this.#guard.release();
  }

  async #spawn(): Promise<ChildProcess> {
    const { command, args, env, missing, uid, gid } = this.#command;
    const log = openSync(this.logFile, 'a');
    // A session of its own: Ctrl-C in a terminal must not end it before the launcher decides how.
    const engine = spawn(command, [...args], { env, uid, gid, detached: true, stdio: ['ignore', log, log] });
    closeSync(log);
    try {
      await once(engine, 'spawn');
    } catch (cause) {
      throw new EngineMissing(`cannot run ${command}: ${missing}`, { cause });
    }
    this.#process = engine;
    this.#guard.watch(engine.pid);
    engine.once('exit', () => {
      if (this.#process !== engine) return;
      this.#process = undefined;
      this.#guard.watch(undefined);
    });
    return engine;
  }

  async #ready(engine: ChildProcess): Promise<void> {
    const outcome = await becomesReady(this.#command.isReady, () => this.#process === engine);
    if (outcome === 'ready') return;
    if (outcome === 'ended') throw this.#failed('ended before it was ready');
    await this.kill();
    throw this.#failed(`was not ready within ${READY_WITHIN_MS / 1000} s`);
  }

  #failed(what: string): EngineFailed {
    const log = readFileSync(this.logFile).subarray(-LOG_TAIL_BYTES).toString('utf8');
    return new EngineFailed(`${this.name} ${what}. The end of its log:\n${log}`);
  }

  #running(): ChildProcess {
    if (this.#process === undefined) throw new EngineFailed(`${this.name} is not running`);
    return this.#process;
  }

  async #endOrderly(): Promise<void> {
    this.#process?.kill('SIGCONT'); // a paused process would not handle the next signal
    const ended = await Promise.race([
      this.#end(this.#command.endsBy ?? 'SIGTERM').then(() => true),
      sleep(ENDS_WITHIN_MS, false, { ref: false }),
    ]);
    if (!ended) await this.kill();
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const engine = this.#process;
    if (engine === undefined) return;
    const exited = once(engine, 'exit');
    engine.kill(signal);
    await exited;
  }
}

export const READY_WITHIN_MS = 90_000;
const POLL_MS = 50;

/** Polls until the engine answers (`ready`), has ended (`ended`), or took too long (`late`). */
export async function becomesReady(
  isReady: () => Promise<boolean>,
  isRunning: () => boolean,
): Promise<'ready' | 'ended' | 'late'> {
  const deadline = Date.now() + READY_WITHIN_MS;
  while (Date.now() < deadline) {
    if (!isRunning()) return 'ended';
    if (await isReady().catch(() => false)) return 'ready';
    await sleep(POLL_MS);
  }
  return 'late';
}

const HALT_LOOK_MS = 2;
const HALT_LOOKS = 2_500;

/**
 * Resolves once all threads of a process have stopped after a SIGSTOP. The signal is still in flight when
 * `kill` returns, and on a busy machine a thread may answer one more client meanwhile. Without `/proc` it
 * resolves at once; after five seconds it rejects.
 */
async function untilHalted(pid: number): Promise<void> {
  for (let look = 0; look < HALT_LOOKS; look++) {
    const states = await threadStates(pid);
    if (states.every((state) => state === 'T')) return;
    await sleep(HALT_LOOK_MS);
  }
  throw new Error(`process ${pid} was sent a SIGSTOP and did not halt`);
}

/** The letters of `proc(5)`, e.g. `S` (sleeps) or `T` (halted by a signal). */
async function threadStates(pid: number): Promise<readonly string[]> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  return Promise.all(
    threads.map(async (thread) => {
      const stat = await readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8').catch(() => '');
      return stateOf(stat) ?? 'T'; // an ended thread counts as stopped
    }),
  );
}

/** The name before the state is in brackets and may contain any character. */
function stateOf(stat: string): string | undefined {
  return stat.slice(stat.lastIndexOf(')') + 1).trimStart()[0];
}

/**
 * Reads the pid to watch, line by line (an empty line: none), until its input ends: by `release`, or because
 * its parent ended in any way. Then it kills the last pid and removes the folder; the files of a dying
 * process may still change for a moment, so it retries for up to ten seconds.
 */
const GUARD = `
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
class Guard {
  readonly #shell: ChildProcess;
  readonly #input: Writable;
  readonly #ended: Promise<unknown>;

  constructor(folder: string) {
    // A session of its own, so that Ctrl-C in a terminal reaches the launcher and not the guard.
    const shell = spawn('/bin/sh', ['-c', GUARD, 'tributary-guard', folder], {
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

/**
 * Below the range of outgoing ports: otherwise a client that retries while its engine is down could get the
 * engine's own port, connect to itself and block the engine's restart.
 */
const LOWEST_PORT = 15_000;
const HIGHEST_PORT = 31_999;
const PORT_TRIES = 200;

const givenPorts = new Set<number>();

/** An unused port of 127.0.0.1; each call returns another one. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < PORT_TRIES; tries += 1) {
    const port = randomInt(LOWEST_PORT, HIGHEST_PORT + 1);
    if (givenPorts.has(port) || !(await isFree(port))) continue;
    givenPorts.add(port);
    return port;
  }
  throw new Error(`no free port found between ${LOWEST_PORT} and ${HIGHEST_PORT}`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

const HTTP_TIMEOUT_MS = 2_000;

/** True when a GET is answered with a status of success. */
export async function answersHttp(url: string): Promise<boolean> {
  const response = await fetch(url, { signal: AbortSignal.timeout(HTTP_TIMEOUT_MS) });
  await response.arrayBuffer();
  return response.ok;
}
