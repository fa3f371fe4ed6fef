import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pidOf } from '../../helpers/pid-of.ts';
import { becomesReady, READY_WITHIN_MS } from '../becomes-ready.ts';
import { EngineFailed, EngineMissing, type RunningEngine } from '../engine.ts';
import { Guard } from './guard.ts';
import { untilHalted } from './halted.ts';

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

export interface NativeStart {
  readonly name: string;
  readonly logFolder: string | undefined;
  /** Prepares the folder and returns the command to run in it. */
  readonly prepare: (folder: string) => Promise<Command>;
}

/** Starts an engine as a process of this machine, in a temporary folder. */
export async function startNative({ name, logFolder, prepare }: NativeStart): Promise<RunningEngine> {
  const folder = await mkdtemp(join(tmpdir(), `tributary-${name}-`));
  const guard = new Guard(folder);
  try {
    if (logFolder !== undefined) await mkdir(logFolder, { recursive: true });
    const logFile = join(logFolder ?? folder, `${name}.log`);
    const engine = new NativeEngine(name, logFile, await prepare(folder), guard);
    await engine.restart();
    return engine;
  } catch (error) {
    await guard.release();
    throw error;
  }
}

class NativeEngine implements RunningEngine {
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
