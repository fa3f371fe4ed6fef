import { once } from 'node:events';
import { connect } from 'node:net';
import { type ContainerSpec, dockerAnswers, startContainer } from './containers.ts';
import type { Engine } from './engine.ts';
import { freePort, startEngine } from './engine-process.ts';
import type { Machine } from './machine.ts';

export interface RedisOptions {
  /** The eviction policy. Default `noeviction`, which Tributary requires. */
  readonly maxmemoryPolicy?: string;
  /** The `redis://host:port` of its primary. */
  readonly replicaOf?: string;
  /** A node of a cluster, without slots and without peers. */
  readonly clusterNode?: boolean;
}

/**
 * One Redis server that writes its append-only file to disk every second. `url` is a `redis://` one. A replica is always a
 * process: from inside a container it would not reach its primary.
 */
export function redisEngine(machine: Machine): Engine<RedisOptions> {
  return {
    name: 'redis',
    async start({ logFolder, ...options } = {}) {
      if (options.replicaOf === undefined && (await dockerAnswers(machine.dockerHost)))
        return startContainer(redisContainer(options), logFolder);
      const port = await freePort();
      const busPort = options.clusterNode ? await freePort() : undefined;
      return startEngine({
        name: 'redis',
        logFolder,
        prepare: async (folder) => ({
          command: 'redis-server',
          args: redisArguments(folder, port, options, busPort),
          url: `redis://127.0.0.1:${port}`,
          env: machine.engineEnv,
          isReady: () => answersRedis(`127.0.0.1:${port}`),
          missing: 'install Redis 7 (Debian: apt-get install redis-server)',
        }),
      });
    },
  };
}

function redisContainer(options: RedisOptions): ContainerSpec {
  const port = 6379;
  const listening = ['--bind', '0.0.0.0', '--protected-mode', 'no'];
  return {
    name: 'redis',
    image: 'redis:7',
    port,
    command: ['redis-server', ...redisArguments('/data', port, options), ...listening],
    url: (address) => `redis://${address}`,
    isReady: answersRedis,
  };
}

async function answersRedis(address: string): Promise<boolean> {
  return (await redisAnswer(`redis://${address}`, 'PING', 1_000)) === '+PONG';
}

export function redisArguments(
  folder: string,
  port: number,
  options: RedisOptions,
  busPort?: number,
): readonly string[] {
  const settings: Record<string, readonly string[]> = {
    port: [String(port)],
    bind: ['127.0.0.1'],
    dir: [folder],
    save: [''],
    appendonly: ['yes'],
    // A new replica gets its copy at once; the default waits five seconds for a second one.
    'repl-diskless-sync-delay': ['0'],
    appendfsync: ['everysec'],
    'maxmemory-policy': [options.maxmemoryPolicy ?? 'noeviction'],
  };
  if (options.replicaOf !== undefined) {
    const primary = new URL(options.replicaOf);
    settings.replicaof = [primary.hostname, primary.port];
  }
  if (busPort !== undefined) {
    settings['cluster-enabled'] = ['yes'];
    settings['cluster-port'] = [String(busPort)];
    settings['cluster-node-timeout'] = ['2000'];
  }
  return Object.entries(settings).flatMap(([name, values]) => [`--${name}`, ...values]);
}

/** The server's reply to one command: a status or an error with its first character, or a string's text. */
export async function redisAnswer(url: string, command: string, timeoutMs = 5_000): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  try {
    socket.write(`${command}\r\n`);
    const [answer] = await once(socket, 'data', { signal: AbortSignal.timeout(timeoutMs) });
    const [head = '', body = ''] = String(answer).split('\r\n');
    return head.startsWith('$') ? body : head;
  } catch (cause) {
    throw new Error(`no answer to ${command}`, { cause });
  } finally {
    socket.destroy();
  }
}
