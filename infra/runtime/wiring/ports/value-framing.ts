import { type Logger, PLAIN_FRAMING, type ValueFraming } from '@tributary/core';
import type { Config } from '../../config/settings.ts';

/** The framing of the public topics: Confluent's where a schema registry is named, else none. `Unavailable`, `SchemaRefused`. */
export async function openValueFraming(config: Config, logger: Logger): Promise<ValueFraming> {
  const {
    schemaRegistryUrl: url,
    schemaRegistryUsername: username,
    schemaRegistryPassword: password,
  } = config;
  if (url === undefined) return PLAIN_FRAMING;
  const { openConfluentFraming } = await import('../../../adapters/value-framing/confluent/index.ts');
  return openConfluentFraming({
    url,
    ...(username === undefined || password === undefined ? {} : { username, password }),
    prefix: config.prefix,
    logger,
  });
}
