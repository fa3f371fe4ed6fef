import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { inherited } from '../helpers/child-environment.ts';
import { freePort } from '../helpers/free-port.ts';

const MAIN = fileURLToPath(new URL('../../infra/runtime/main.ts', import.meta.url));
const ENDS_WITHIN_MS = 40_000;
const RESTART_PAUSE_MS = 100;

/**
 * A role of `tributary` under a supervisor, as an operator would run it: whenever the process ends, for any
 * reason, it is restarted at once on the same port. Its output goes to `<name>.log`.
 */
export class Supervised {
  readonly name: string;
  readonly url: string;
  readonly adminUrl: string;
  /** Starts, including the first. */
  starts = 0;
  kills = 0;
  /** Exit codes or signals of ends that were neither kills nor requested. */
  readonly endedByItself: (number | string)[] = [];
  readonly #role: string;
  /** Behind the role on the command line. */
  readonly #args: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  readonly #logFile: string;
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();
  #leaving = false;
  /**
   * Whether it was up at the request to leave: a process that has hardly begun to start ends by the signal
   * itself.
   */
  #wasUp = false;
  #killed = false;
  /** An operator restarts it: its end is expected, with code 0. */
  #restarting = false;

  private constructor(
    name: string,
    [port, adminPort]: readonly [number, number],
    env: Readonly<Record<string, string>>,
    logFolder: string,
    args: readonly string[],
  ) {
    this.name = name;
    this.#args = args;
    this.url = `http://127.0.0.1:${port}`;
    this.#role = name.replace(/-\d+$/, '');
    this.adminUrl = `http://127.0.0.1:${adminPort}`;
    const ports = { PORT: String(port), TRIBUTARY_ADMIN_PORT: String(adminPort) };
    this.#env = { ...inherited(), HOST: '127.0.0.1', TRIBUTARY_DRAIN: '1s', ...ports, ...env };
    this.#logFile = join(logFolder, `${name}.log`);
  }

  /** `name` is the role and a number, e.g. `gateway-1`. */
  static async start(
    name: string,
    env: Readonly<Record<string, string>>,
    logFolder: string,
    args: readonly string[] = [],
  ): Promise<Supervised> {
    const supervised = new Supervised(name, [await freePort(), await freePort()], env, logFolder, args);
    supervised.#start();
    return supervised;
  }

  /** SIGKILL at any point; the supervisor restarts it. */
  kill(): void {
    if (this.#child === undefined || this.#killed) return;
    this.#killed = true;
    this.kills++;
    this.#child.kill('SIGKILL');
  }

  /** SIGSTOP for this long: the others consider it dead, and then it continues. */
  async pause(forMs: number): Promise<void> {
    const child = this.#child;
    child?.kill('SIGSTOP');
    await sleep(forMs);
    child?.kill('SIGCONT');
  }

  /** SIGTERM, as in a rolling restart; the supervisor starts it again. Resolves once it is ready. */
  async restart(): Promise<void> {
    this.#restarting = true;
    this.#child?.kill('SIGTERM');
    await this.#exited;
    this.#restarting = false;
    while (!(await this.isReady())) await sleep(RESTART_PAUSE_MS);
  }

  /** SIGTERM, without a restart. Resolves to the time it took, ms. */
  async leave(): Promise<number> {
    const from = performance.now();
    this.#leaving = true;
    this.#child?.kill('SIGCONT');
    this.#wasUp = await this.#answersWell('/livez');
    this.#child?.kill('SIGTERM');
    const late = setTimeout(() => this.#child?.kill('SIGKILL'), ENDS_WITHIN_MS);
    await this.#exited;
    clearTimeout(late);
    return performance.now() - from;
  }

  isReady(): Promise<boolean> {
    return this.#answersWell('/readyz');
  }

  get(path: string): Promise<Response> {
    return fetch(`${this.url}${path}`, { signal: AbortSignal.timeout(5_000) });
  }

  async #answersWell(path: string): Promise<boolean> {
    const answer = await this.get(path).catch(() => undefined);
    return answer?.ok === true;
  }

  #start(): void {
    this.starts++;
    this.#killed = false;
    const log = openSync(this.#logFile, 'a');
    const args = ['--disable-warning=ExperimentalWarning', MAIN, this.#role, ...this.#args];
    const child = spawn(process.execPath, args, { env: this.#env, stdio: ['ignore', log, log] });
    closeSync(log);
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.#child = undefined;
        if (!this.#leaving) {
          const isExpected = this.#killed || (this.#restarting && code === 0);
          if (!isExpected) this.endedByItself.push(code ?? signal ?? 'unknown');
          setTimeout(() => this.#leaving || this.#start(), this.#killed ? 0 : RESTART_PAUSE_MS);
        } else if (code !== 0 && (this.#wasUp || signal !== 'SIGTERM'))
          this.endedByItself.push(code ?? signal ?? 'unknown');
        resolve();
      });
    });
  }
}
