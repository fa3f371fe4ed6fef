import type { HistoryEntry, HistoryKind, Logger } from '@tributary/core';
import { type ElasticsearchAccess, ElasticsearchConnection, indexPrefix } from '../../elasticsearch/index.ts';
import { HistoryReader } from './history-reader.ts';
import { HistoryWriter } from './history-writer.ts';
import { PeriodIndices } from './period-indices.ts';

export interface HistoryImportOptions {
  readonly access: ElasticsearchAccess;
  readonly prefix: string;
  readonly retentionMs: number;
  readonly logger: Logger;
  /** How long a call may take, ms. */
  readonly timeoutMs: number;
}

/** Puts entries of another history as if they were put when they were put there, so that they expire as they would have. */
export interface HistoryImport {
  /** `putAt`: not before the last put of any of the entries, epoch ms. May be repeated. */
  put(entries: readonly HistoryEntry[], putAt: number): Promise<void>;
  get(kind: HistoryKind, workspaceId: string, id: string): Promise<HistoryEntry | undefined>;
  /** The number of entries, with all that were put before the call. */
  count(kind: HistoryKind, workspaceId: string): Promise<number>;
  /** Whether there is any index of a history. */
  exists(): Promise<boolean>;
  close(): Promise<void>;
}

export async function openHistoryImport(options: HistoryImportOptions): Promise<HistoryImport> {
  const { access, prefix, retentionMs, logger, timeoutMs } = options;
  const connection = await ElasticsearchConnection.open({ access, logger, timeoutMs });
  const base = `${indexPrefix(prefix)}history`;
  let now = 0;
  const indices = new PeriodIndices(connection, { base, clock: () => now, retentionMs, logger });
  const writer = new HistoryWriter(connection, indices);
  const reader = new HistoryReader(connection, indices, base);
  return {
    async put(entries, putAt) {
      now = putAt;
      await writer.put(entries);
    },
    get: (kind, workspaceId, id) => reader.get(kind, workspaceId, id),
    async count(kind, workspaceId) {
      await connection.call((client) => client.indices.refresh({ index: base, ignore_unavailable: true }));
      const filter = [{ term: { kind } }, { term: { workspace_id: workspaceId } }];
      const { count } = await connection.call((client) =>
        client.count({ index: base, ignore_unavailable: true, query: { bool: { filter } } }),
      );
      return count;
    },
    exists: async () => (await indices.names()).length > 0,
    async close() {
      await writer.settled();
      await connection.close();
    },
  };
}
