import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDevIssuer } from '@tributary/infra';
import { describeMachine, enginesOf, type RunningEngine } from '../engines/index.ts';
import { Client } from '../helpers/client.ts';
import { type Engines, freshPrefix } from '../helpers/engines.ts';
import { removePrefix } from '../helpers/remove-prefix.ts';
import { GATEWAYS } from './schedule.ts';
import { Supervised } from './supervisor.ts';

export interface InstallationOptions {
  /** Holds the data folder `data` and the logs. */
  readonly folder: string;
  readonly processors: number;
  readonly partitions: number;
  readonly sessionTimeoutMs: number;
  /** The stages of the processors; default all. */
  readonly stages?: string;
  /** The engines of the run, for a test that stops none. Default: dedicated ones. */
  readonly shared?: Engines;
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
  const found = enginesOf(describeMachine(process.env));
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
