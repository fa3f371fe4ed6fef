import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openDevIssuer } from '@tributary/infra';
import { freePort } from '../engines/engine-process.ts';
import type { RunningEngine } from '../engines/index.ts';
import { inherited } from '../helpers/child.ts';
import { Client } from '../helpers/client.ts';
import { type Engines, freshPrefix } from '../helpers/engines.ts';
import { ownEngines } from '../helpers/own-engines.ts';
import { removePrefix } from '../helpers/remove-prefix.ts';

export const GATEWAYS = ['gateway-1', 'gateway-2'] as const;
export const PROCESSORS = ['processor-1', 'processor-2', 'processor-3'] as const;

export interface InstallationOptions {
  /** Holds the data folder `data` and the logs. */
  readonly folder: string;
  readonly processors: number;
  readonly partitions: number;
  readonly sessionTimeoutMs: number;
  /** The stages of the processors; default all. */
  readonly stages?: string;
  /** The engines of the run, for a test that stops none. Default: dedicated ones. */
  readonly shared?: Engines | undefined;
  /** Further settings of all processes. */
  readonly env?: Readonly<Record<string, string>>;
}

type Engine = Pick<RunningEngine, 'url' | 'kill' | 'stop' | 'restart'>;

const EMAIL = 'chaos@tributary.localhost';
const READY_WITHIN_MS = 240_000;

/**
 * Two gateways and some processors under supervision, on dedicated engines, with one prefix and one data
 * folder. Records that Kafka confirmed outlive a SIGKILL of its process in the system's page cache. Redis
 * passes its append-only file to the system before it answers, unless a slow disk delays that by up to two
 * seconds. Counts and dedupe claims lost in that window are made again, so the expectation stays the same.
 */
export class Installation {
  readonly prefix = freshPrefix();
  readonly kafka: Engine;
  readonly redis: Engine;
  readonly folder: string;
  readonly #registry: Engine;
  readonly #options: InstallationOptions;
  readonly #processes = new Map<string, Supervised>();
  /** Processors that were removed. */
  readonly #gone: Supervised[] = [];

  private constructor(engines: readonly [Engine, Engine, Engine], options: InstallationOptions) {
    [this.kafka, this.redis, this.#registry] = engines;
    this.folder = options.folder;
    this.#options = options;
  }

  static async start(options: InstallationOptions): Promise<Installation> {
    await mkdir(join(options.folder, 'data'), { recursive: true });
    const installation = new Installation(
      options.shared === undefined ? await startEngines(options.folder) : enginesAt(options.shared),
      options,
    );
    try {
      for (const name of GATEWAYS) await installation.add(name);
      for (let i = 1; i <= options.processors; i++) await installation.add(`processor-${i}`);
      await installation.becomesReady();
      return installation;
    } catch (error) {
      await installation.stop();
      throw error;
    }
  }

  get gateways(): readonly [string, string] {
    return [this.process(GATEWAYS[0]).url, this.process(GATEWAYS[1]).url];
  }

  /** Running processors. */
  get processors(): readonly Supervised[] {
    return [...this.#processes.values()].filter(({ name }) => name.startsWith('processor'));
  }

  /** All processes, including ended ones. */
  get processes(): readonly Supervised[] {
    return [...this.#processes.values(), ...this.#gone];
  }

  get dataFolder(): string {
    return join(this.folder, 'data');
  }

  process(name: string): Supervised {
    const found = this.#processes.get(name);
    if (found === undefined) throw new Error(`there is no process ${name}`);
    return found;
  }

  /** Starts one more process, e.g. `processor-4`; does not wait until it is ready. */
  async add(name: string): Promise<Supervised> {
    const { stages } = this.#options;
    const args = stages !== undefined && name.startsWith('processor') ? ['--stages', stages] : [];
    const added = await Supervised.start(name, this.environment, this.folder, args);
    this.#processes.set(name, added);
    return added;
  }

  /** Takes a process away with SIGTERM; resolves to how long it took, ms. */
  async take(name: string): Promise<number> {
    const leaving = this.process(name);
    this.#processes.delete(name);
    this.#gone.push(leaving);
    return leaving.leave();
  }

  async person(): Promise<Client> {
    const token = await openDevIssuer({ dataFolder: this.dataFolder, devIssuerKey: '' }).mint(EMAIL);
    return new Client(this.gateways[0], token);
  }

  async becomesReady(): Promise<void> {
    const deadline = Date.now() + READY_WITHIN_MS;
    for (const each of this.#processes.values()) {
      while (!(await each.isReady())) {
        if (Date.now() > deadline) throw new Error(`${each.name} was not ready in ${READY_WITHIN_MS} ms`);
        await sleep(50);
      }
    }
  }

  /** Ends everything. The engines are killed: their data are not needed any more. */
  async stop(): Promise<void> {
    await Promise.all([...this.#processes.values()].map((each) => each.leave()));
    for (const engine of [this.kafka, this.redis, this.#registry]) {
      await engine.kill();
      await engine.stop();
    }
    if (this.#options.shared !== undefined) await removePrefix(this.prefix);
  }

  /** The environment of every process, and of commands that run beside them. */
  get environment(): Readonly<Record<string, string>> {
    return {
      KAFKA_BROKERS: this.kafka.url,
      KAFKA_SESSION_TIMEOUT: `${this.#options.sessionTimeoutMs}ms`,
      REDIS_URL: this.redis.url,
      ELASTICSEARCH_URL: 'none',
      SCHEMA_REGISTRY_URL: this.#registry.url,
      TRIBUTARY_PREFIX: this.prefix,
      TRIBUTARY_DATA_DIR: this.dataFolder,
      TRIBUTARY_PARTITIONS: String(this.#options.partitions),
      TRIBUTARY_DEV_ISSUER: '1',
      TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8',
      TRIBUTARY_RETRY_SCHEDULE: '1s,5s',
      // A slow disk on a busy machine must not turn most deliveries into repeats.
      TRIBUTARY_DELIVERY_TIMEOUT: '30s',
      TRIBUTARY_SANDBOX_PROCESSES: '1',
      LOG_LEVEL: 'info',
      ...this.#options.env,
    };
  }
}

async function startEngines(logFolder: string): Promise<readonly [Engine, Engine, Engine]> {
  const found = ownEngines();
  const starts = [
    found.kafka.start({ logFolder }),
    found.redis.start({ logFolder }),
    found.schemaRegistry.start({ logFolder }),
  ] as const;
  const outcomes = await Promise.allSettled(starts);
  if (outcomes.some(({ status }) => status === 'rejected'))
    await Promise.all(outcomes.map(async (one) => one.status === 'fulfilled' && (await one.value.stop())));
  return Promise.all(starts);
}

/** Engines that others use as well. */
function enginesAt({
  kafkaBrokers,
  redisUrl,
  schemaRegistryUrl,
}: Engines): readonly [Engine, Engine, Engine] {
  const at = (url: string): Engine => ({
    url,
    async kill() {},
    async stop() {},
    async restart() {
      throw new Error('an engine that others use as well');
    },
  });
  return [at(kafkaBrokers), at(redisUrl), at(schemaRegistryUrl)];
}

const MAIN = fileURLToPath(new URL('../../infra/runtime/main.ts', import.meta.url));
const ENDS_WITHIN_MS = 40_000;
const RESTART_PAUSE_MS = 100;

/**
 * A role of `tributary` under a supervisor, as an operator would run it: whenever the process ends, for any
 * reason, it is restarted at once on the same port. Its output goes to `<name>.log`.
 */
class Supervised {
  readonly name: string;
  readonly url: string;
  readonly adminUrl: string;
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
