import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freshPrefix } from '../helpers/engines.ts';
import { removeTopics } from '../helpers/kafka.ts';
import { removeKeys } from '../helpers/redis.ts';
import type { BenchEngines } from './engines.ts';

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
