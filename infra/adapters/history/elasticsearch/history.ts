import { type Clock, type History, type Logger, messageOf } from '@tributary/core';
import { type ElasticsearchAccess, ElasticsearchConnection, indexPrefix } from '../../elasticsearch/index.ts';
import { HistoryReader } from './history-reader.ts';
import { HistoryWriter } from './history-writer.ts';
import { PeriodIndices } from './period-indices.ts';

const RETENTION_EVERY_MS = 60 * 60 * 1000;

export interface ElasticsearchHistoryOptions {
  readonly access: ElasticsearchAccess;
  /** Distinguishes the indices of installations that share a cluster. */
  readonly prefix: string;
  readonly clock: Clock;
  /** Entries are kept for at least this long after their last put, ms. */
  readonly retentionMs: number;
  readonly logger: Logger;
  /** How long a call may take, ms, before it is `Unavailable`. Default 10,000. */
  readonly timeoutMs?: number;
  /** How often expired indices are dropped, ms, beginning at once. Default an hour; false: never. */
  readonly retentionEveryMs?: number | false;
}

/**
 * A `History` in Elasticsearch: an index for each period of `at` (a day, unless the retention is long), dropped whole once
 * nothing was put into it for the retention. `InvalidInput` when the credentials are wrong. Calls are `Unavailable` while
 * the cluster does not answer.
 */
export async function openElasticsearchHistory(options: ElasticsearchHistoryOptions): Promise<History> {
  const { access, prefix, clock, retentionMs, logger, timeoutMs } = options;
  const connection = await ElasticsearchConnection.open({
    access,
    logger,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  const base = `${indexPrefix(prefix)}history`;
  const indices = new PeriodIndices(connection, { base, clock, retentionMs, logger });
  const writer = new HistoryWriter(connection, indices);
  const reader = new HistoryReader(connection, indices, base);
  const dropping = dropEvery(options.retentionEveryMs ?? RETENTION_EVERY_MS, indices, logger);
  let closed: Promise<void> | undefined;
  return {
    put: (entries) => writer.put(entries),
    list: (query) => reader.list(query),
    countByHour: (query) => reader.countByHour(query),
    groups: (query) => reader.groups(query),
    get: (kind, workspaceId, id) => reader.get(kind, workspaceId, id),
    close() {
      closed ??= Promise.all([writer.settled(), dropping.stop()]).then(() => connection.close());
      return closed;
    },
  };
}

/** Drops expired indices regularly. */
function dropEvery(
  everyMs: number | false,
  indices: PeriodIndices,
  logger: Logger,
): { stop(): Promise<void> } {
  if (everyMs === false) return { stop: async () => {} };
  let dropping = Promise.resolve();
  const drop = () => {
    dropping = dropping
      .then(() => indices.dropExpired())
      .catch((error) =>
        logger.warn(
          { error: messageOf(error) },
          'expired history could not be dropped; the next run tries again',
        ),
      );
  };
  drop();
  const timer = setInterval(drop, everyMs).unref();
  return {
    stop() {
      clearInterval(timer);
      return dropping;
    },
  };
}
