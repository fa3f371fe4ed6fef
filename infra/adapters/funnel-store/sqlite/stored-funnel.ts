import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  type CountedPartition,
  FUNNEL_DOCUMENTS,
  type FunnelDocument,
  type FunnelDocumentKey,
  funnelKeptMs,
} from '@tributary/core';
import { openDatabase } from '../../sqlite/database.ts';

/** The funnel of a folder that no process writes to. */
export interface StoredFunnel {
  applied(): readonly (CountedPartition & { readonly offset: number })[];
  /** The documents that are kept at the time `now`, epoch ms. */
  documents(now: number): Iterable<FunnelDocument>;
  close(): void;
}

/** Undefined where nothing was ever counted. */
export function openStoredFunnel(folder: string): StoredFunnel | undefined {
  const file = join(folder, 'funnel.db');
  if (!existsSync(file)) return undefined;
  const database = openDatabase(file, { readOnly: true });
  return {
    applied: () =>
      database
        .prepare('SELECT topic, partition, offset FROM applied')
        .all()
        .map(({ topic, partition, offset }) => ({
          topic: String(topic),
          partition: Number(partition),
          offset: Number(offset),
        })),
    *documents(now) {
      const rows = database.prepare('SELECT * FROM documents WHERE kind = ? AND start > ?');
      for (const kind of FUNNEL_DOCUMENTS)
        for (const row of rows.iterate(kind, now - funnelKeptMs(kind)))
          yield {
            workspaceId: String(row.workspace_id),
            kind: row.kind as FunnelDocumentKey['kind'],
            start: Number(row.start),
            field: String(row.field),
            value: String(row.value),
          };
    },
    close: () => database.close(),
  };
}
