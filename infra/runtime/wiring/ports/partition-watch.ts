import { setTimeout as sleep } from 'node:timers/promises';
import { type Catalog, type EventLog, type Logger, messageOf } from '@tributary/core';

/** How often the partitions on the medium are compared with those in use, and before the catalog is read, ms. */
const EVERY_MS = 60_000;
const UNTIL_READY_MS = 1_000;

/**
 * Warns, at the start and whenever it changes, of topics with other partitions than are used: somebody grew them with a
 * tool of Kafka, which changes nothing until it is adopted.
 */
export function watchPartitions(
  log: EventLog,
  catalog: Pick<Catalog, 'ready'>,
  logger: Logger,
): { close(): Promise<void> } {
  const closing = new AbortController();
  const watching = watch(log, catalog, logger, closing.signal);
  return {
    async close() {
      closing.abort();
      await watching;
    },
  };
}

async function watch(
  log: EventLog,
  catalog: Pick<Catalog, 'ready'>,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  if (log.otherPartitions === undefined) return;
  let warned: readonly string[] = [];
  while (!signal.aborted) {
    const { ready } = catalog;
    if (ready) {
      try {
        const others = await log.otherPartitions();
        for (const text of others) if (!warned.includes(text)) logger.warn({}, text);
        warned = others;
      } catch (error) {
        logger.debug({ error: messageOf(error) }, 'the partitions in Kafka are not known; trying again');
      }
    }
    await sleep(ready ? EVERY_MS : UNTIL_READY_MS, undefined, { signal, ref: false }).catch(() => {});
  }
}
