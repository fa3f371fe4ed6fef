import { type Logger, messageOf, NO_LOGGER } from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { redisAccess } from '../wiring/ports/shared-state.ts';
import { elasticsearchAccess } from '../wiring/ports/stores.ts';

/** The versions of the engines of an installation, by their names. */
export type EngineVersions = Readonly<Record<string, string>>;

/**
 * Asks the engines for their versions, each on a connection of its own. One that does not answer, or may not be asked, is
 * left out: it is no fault, and `/readyz` says what does not answer. Kafka's protocol has no version of the broker.
 */
export async function readEngineVersions(config: Config, logger: Logger): Promise<EngineVersions> {
  const asked: Record<string, () => Promise<string | undefined>> = {
    redis: () => redisVersion(config),
    elasticsearch: () => elasticsearchVersion(config),
  };
  const versions: Record<string, string> = { sqlite: process.versions.sqlite ?? '' };
  await Promise.all(
    Object.entries(asked).map(async ([engine, ask]) => {
      try {
        const version = await ask();
        if (version !== undefined) versions[engine] = version;
      } catch (error) {
        logger.debug({ engine, error: messageOf(error) }, 'the version of an engine is not known');
      }
    }),
  );
  return versions;
}

async function redisVersion(config: Config): Promise<string | undefined> {
  const access = redisAccess(config);
  if (access === undefined) return undefined;
  const { RedisConnection } = await import('../../adapters/redis/index.ts');
  const connection = await RedisConnection.open({ ...access, logger: NO_LOGGER });
  try {
    const text = await connection.call((client) => client.info('server'));
    return /^redis_version:(\S+)/m.exec(String(text))?.[1];
  } finally {
    await connection.close();
  }
}

async function elasticsearchVersion(config: Config): Promise<string | undefined> {
  const access = elasticsearchAccess(config);
  if (access === undefined) return undefined;
  const { ElasticsearchConnection } = await import('../../adapters/elasticsearch/index.ts');
  const connection = await ElasticsearchConnection.open({ access, logger: NO_LOGGER });
  try {
    const { version } = await connection.call((client) => client.info());
    return version.number;
  } finally {
    await connection.close();
  }
}
