import { dockerAnswers } from '../docker/docker-answers.ts';
import { type ContainerSpec, startContainer } from '../docker/docker-engine.ts';
import type { Engine } from '../engine.ts';
import type { Machine } from '../machine.ts';
import { startNative } from '../native/native-engine.ts';
import { freePort } from '../native/ports.ts';
import { answersRedis } from './answers.ts';

export interface RedisOptions {
  /** The eviction policy. Default `noeviction`, which Tributary requires. */
  readonly maxmemoryPolicy?: string;
  /** The `redis://host:port` of its primary. */
  readonly replicaOf?: string;
  /** A node of a cluster, without slots and without peers. */
  readonly clusterNode?: boolean;
}

/**
 * One Redis server that writes its append-only file to disk every second. `url` is a `redis://` one. A replica is always
 * native: from inside a container it would not reach its primary.
 */
export function redisEngine(machine: Machine): Engine<RedisOptions> {
  return {
    name: 'redis',
    async start({ logFolder, ...options } = {}) {
      if (options.replicaOf === undefined && (await dockerAnswers(machine.dockerHost)))
        return startContainer(redisContainer(options), logFolder);
      const port = await freePort();
      const busPort = options.clusterNode ? await freePort() : undefined;
      return startNative({
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
