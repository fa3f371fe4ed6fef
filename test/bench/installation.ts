import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openEventLog, readConfig } from '@tributary/infra';
import { describeMachine, enginesOf, type RunningEngine } from '../engines/index.ts';
import { Client } from '../helpers/client.ts';
import { freshPrefix } from '../helpers/engines.ts';
import { removeTopics } from '../helpers/kafka.ts';
import { removeKeys } from '../helpers/redis.ts';
import { type BenchProcess, startProcess } from './process.ts';

/** The engines of the rows that need them. */
export interface BenchEngines {
  readonly kafka: RunningEngine;
  readonly redis: RunningEngine;
}

/** Engines that start with the first suite that needs them, and serve all later ones. */
export class LazyEngines {
  #started: Promise<BenchEngines> | undefined;

  /**
   * Rejects with the name of a missing requirement, or with the end of the log of an engine that did not
   * start.
   */
  get(): Promise<BenchEngines> {
    this.#started ??= start();
    return this.#started;
  }

  async stop(): Promise<void> {
    const engines = await this.#started?.catch(() => undefined);
    await engines?.kafka.stop();
    await engines?.redis.stop();
  }
}

async function start(): Promise<BenchEngines> {
  const machine = enginesOf(describeMachine(process.env));
  const kafka = await machine.kafka.start();
  try {
    return { kafka, redis: await machine.redis.start() };
  } catch (error) {
    await kafka.stop();
    throw error;
  }
}

/** One Tributary with its own data folder, and on engines its own prefix. */
export interface Installation {
  /** The environment of each of its processes. */
  readonly env: Readonly<Record<string, string>>;
  /** Removes all its data, once its processes have ended. */
  remove(): Promise<void>;
}

/** The engines that store an installation's events. */
export interface Wiring {
  readonly name: 'embedded' | 'kafka';
  install(settings?: Readonly<Record<string, string>>): Installation;
}

export const EMBEDDED: Wiring = {
  name: 'embedded',
  install(settings = {}) {
    const { folder, remove } = dataFolder();
    return {
      env: { TRIBUTARY_DATA_DIR: folder, LOG_LEVEL: 'error', ...settings },
      remove: async () => remove(),
    };
  },
};

export function onEngines({ kafka, redis }: BenchEngines): Wiring {
  return {
    name: 'kafka',
    install(settings = {}) {
      const { folder, remove } = dataFolder();
      const prefix = freshPrefix();
      return {
        env: {
          KAFKA_BROKERS: kafka.url,
          REDIS_URL: redis.url,
          ELASTICSEARCH_URL: 'none',
          TRIBUTARY_PREFIX: prefix,
          TRIBUTARY_DATA_DIR: folder,
          TRIBUTARY_DEV_ISSUER: '1',
          TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8',
          LOG_LEVEL: 'error',
          ...settings,
        },
        async remove() {
          await removeTopics(kafka.url, prefix);
          await removeKeys(redis.url, prefix);
          remove();
        },
      };
    },
  };
}

function dataFolder(): { readonly folder: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-bench-'));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/**
 * The number of entries of a topic in an installation's log: all that was stored, whether or not it was
 * acknowledged.
 */
export async function countEntries({ env }: Pick<Installation, 'env'>, topic: string): Promise<number> {
  const tools = { logger: NO_LOGGER, metrics: NO_METRICS, dropExpired: false };
  const log = await openEventLog(readConfig(env), tools);
  try {
    let stored = 0;
    for (let partition = 0; partition < (log.topics.get(topic)?.partitions ?? 0); partition++) {
      for (let from = 0; ; ) {
        const { entries, next } = await log.read(topic, partition, from, { maxBytes: 8 * 1024 * 1024 });
        stored += entries.length;
        if (next === from) break;
        from = next;
      }
    }
    return stored;
  } finally {
    await log.close();
  }
}

interface GatewayHello {
  readonly url: string;
  readonly workspaceId: string;
  readonly writeKey: string;
  readonly idToken: string;
}

export interface BenchGateway extends BenchProcess<GatewayHello> {
  /** Calls as the owner of its workspace, in it. */
  readonly owner: Client;
  /** Calls with its write key. */
  readonly producer: Client;
}

/** A gateway of the installation in a process of its own, with a workspace and a write key. */
export async function startGateway({ env }: Installation): Promise<BenchGateway> {
  const started = await startProcess<GatewayHello>('./gateway-process.ts', env);
  const { url, idToken, workspaceId, writeKey } = started.hello;
  const owner = new Client(url, idToken, workspaceId);
  return { ...started, owner, producer: owner.with({ token: writeKey }) };
}
