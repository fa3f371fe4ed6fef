import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EngineFailed, type RunningEngine } from './engine.ts';
import { becomesReady, freePort, READY_WITHIN_MS } from './engine-process.ts';

/** An engine in a container. */
export interface ContainerSpec {
  readonly name: string;
  readonly image: string;
  /** Inside of the container. */
  readonly port: number;
  /** `address` is the address for clients, `host:port`. */
  readonly environment?: (address: string) => Readonly<Record<string, string>>;
  readonly command?: readonly string[];
  readonly url: (address: string) => string;
  readonly isReady: (address: string) => Promise<boolean>;
}

type Runtime = Awaited<ReturnType<typeof import('testcontainers').getContainerRuntimeClient>>;
type Container = ReturnType<Runtime['container']['getById']>;

/**
 * Starts an engine in Docker, on a host port that it keeps over restarts. Testcontainers' own reaper removes
 * it when this process ends without cleaning up.
 */
export async function startContainer(spec: ContainerSpec, logFolder?: string): Promise<RunningEngine> {
  // Loaded only here: most machines that start engines have no Docker.
  const { GenericContainer, getContainerRuntimeClient } = await import('testcontainers');
  const runtime = await getContainerRuntimeClient();
  const port = await freePort();
  const address = `${runtime.info.containerRuntime.host}:${port}`;
  const created = new GenericContainer(spec.image)
    .withExposedPorts({ container: spec.port, host: port })
    .withEnvironment({ ...spec.environment?.(address) });
  if (spec.command !== undefined) created.withCommand([...spec.command]);
  const started = await created.start();
  const folder = await mkdtemp(join(tmpdir(), `tributary-${spec.name}-`));
  const container = runtime.container.getById(started.getId());
  const engine = new DockerEngine(spec, address, runtime, container, folder, logFolder ?? folder);
  try {
    await mkdir(logFolder ?? folder, { recursive: true });
    await engine.ready();
    return engine;
  } catch (error) {
    await engine.stop();
    throw error;
  }
}

class DockerEngine implements RunningEngine {
  readonly name: string;
  readonly url: string;
  readonly logFile: string;
  readonly #spec: ContainerSpec;
  readonly #address: string;
  readonly #runtime: Runtime;
  readonly #container: Container;
  readonly #folder: string;
  #pid = 0;
  #isPaused = false;
  #isStopped = false;

  constructor(
    spec: ContainerSpec,
    address: string,
    runtime: Runtime,
    container: Container,
    folder: string,
    logFolder: string,
  ) {
    this.name = spec.name;
    this.url = spec.url(address);
    this.logFile = join(logFolder, `${spec.name}.log`);
    this.#spec = spec;
    this.#address = address;
    this.#runtime = runtime;
    this.#container = container;
    this.#folder = folder;
  }

  /** The pid in the namespace of the Docker host. */
  get pid(): number {
    if (this.#pid === 0) throw new EngineFailed(`${this.name} is not running`);
    return this.#pid;
  }

  get isRunning(): boolean {
    return this.#pid !== 0;
  }

  async ready(): Promise<void> {
    const { State } = await this.#container.inspect();
    this.#pid = State.Pid;
    const log = await this.#runtime.container.logs(this.#container);
    log.pipe(createWriteStream(this.logFile)); // from its first line, also after a restart
    const outcome = await becomesReady(
      () => this.#spec.isReady(this.#address),
      () => this.#pid !== 0,
    );
    if (outcome !== 'ready')
      throw new EngineFailed(
        `${this.name} was not ready within ${READY_WITHIN_MS / 1000} s, see ${this.logFile}`,
      );
  }

  async kill(): Promise<void> {
    if (this.#pid === 0) return;
    await this.resume();
    await this.#container.kill({ signal: 'SIGKILL' });
    await this.#container.wait();
    this.#pid = 0;
  }

  async pause(): Promise<void> {
    await this.#container.pause();
    this.#isPaused = true;
  }

  async resume(): Promise<void> {
    if (this.#isPaused) await this.#container.unpause();
    this.#isPaused = false;
  }

  async restart(): Promise<void> {
    if (this.#isStopped) throw new EngineFailed(`${this.name} was stopped, and its data are gone`);
    await this.resume();
    await this.#container.restart();
    await this.ready();
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#pid = 0;
    await this.#container.remove({ force: true, v: true });
    await rm(this.#folder, { recursive: true, force: true });
  }
}

const TIMEOUT_MS = 1_000;

/** Whether a Docker engine answers at `unix://<socket>` or `tcp://<host>:<port>`. */
export function dockerAnswers(dockerHost: string): Promise<boolean> {
  const { protocol, hostname, port, pathname } = new URL(dockerHost);
  const where = protocol === 'unix:' ? { socketPath: pathname } : { host: hostname, port };
  return new Promise((resolve) => {
    const ping = request({ ...where, path: '/_ping', timeout: TIMEOUT_MS }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    ping.once('timeout', () => ping.destroy());
    ping.once('close', () => resolve(false)); // no effect after an answer
    ping.once('error', () => resolve(false));
    ping.end();
  });
}
