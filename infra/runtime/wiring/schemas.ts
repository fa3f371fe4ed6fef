import {
  type Logger,
  messageOf,
  PLAIN_FRAMING,
  PUBLIC_SCHEMAS,
  type PublishProfileChanges,
  SchemaRefused,
  TributaryError,
  Unavailable,
  type ValueFraming,
} from '@tributary/core';
import type { Config } from '../config/settings.ts';

const RETRY_EVERY_MS = 5_000;

/**
 * The framing of the public topics for a process that starts without waiting for the schema registry. Its appends to
 * public topics wait instead.
 */
export interface LateSchemas {
  readonly framing: ValueFraming;
  /**
   * Connects to the registry, and retries in the background while it does not answer. Rejects with `SchemaRefused` if it
   * refuses the schemas at the first attempt: then the process must not start.
   */
  begin(): Promise<void>;
  /** Wraps `publish`: `Unavailable` until the registry has answered. */
  published(publish: PublishProfileChanges): PublishProfileChanges;
  close(): Promise<void>;
}

export function lateSchemas(
  open: () => Promise<ValueFraming>,
  logger: Logger,
  retryEveryMs = RETRY_EVERY_MS,
): LateSchemas {
  let opened: ValueFraming | undefined;
  let again: NodeJS.Timeout | undefined;
  let closed = false;

  const retryLater = (error: unknown) => {
    if (closed) return; // closed during the attempt
    logger.warn(
      { error: messageOf(error) },
      'records for public topics wait until the schema registry answers',
    );
    again = setTimeout(() => void attempt().catch(retryLater), retryEveryMs).unref();
  };
  const attempt = async () => {
    const framing = await open();
    if (closed) await framing.close();
    else opened = framing;
  };
  const needed = () => {
    if (opened === undefined) throw new Unavailable('the schema registry has not answered yet');
    return opened;
  };
  return {
    framing: {
      frame: (topic, json) => (PUBLIC_SCHEMAS.has(topic) ? needed() : PLAIN_FRAMING).frame(topic, json),
      unframe: PLAIN_FRAMING.unframe,
      close: async () => {},
    },
    async begin() {
      try {
        await attempt();
      } catch (error) {
        if (error instanceof SchemaRefused || !(error instanceof TributaryError)) throw error;
        retryLater(error);
      }
    },
    published: (publish) => async (changes) => {
      needed();
      await publish(changes);
    },
    async close() {
      closed = true;
      clearTimeout(again);
      await opened?.close();
    },
  };
}

/** Confluent's framing if a schema registry is configured, else none. Fails with `Unavailable` or `SchemaRefused`. */
export async function openValueFraming(config: Config, logger: Logger): Promise<ValueFraming> {
  const {
    schemaRegistryUrl: url,
    schemaRegistryUsername: username,
    schemaRegistryPassword: password,
  } = config;
  if (url === undefined) return PLAIN_FRAMING;
  const { openConfluentFraming } = await import('../../adapters/value-framing/confluent/index.ts');
  return openConfluentFraming({
    url,
    ...(username === undefined || password === undefined ? {} : { username, password }),
    prefix: config.prefix,
    logger,
  });
}
