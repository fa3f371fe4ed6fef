import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  COUNT_DOCUMENTS,
  type CountDocument,
  type CountDocumentKey,
  type CountedPartition,
  documentKeptMs,
} from '@tributary/core';
import { openDatabase } from '../../sqlite/database.ts';

/** The counts of a folder that no process writes to. */
export interface StoredCounts {
  applied(): readonly (CountedPartition & { readonly offset: number })[];
  /** The documents that are kept at the time `now`, epoch ms. */
  documents(now: number): Iterable<CountDocument>;
  close(): void;
}

/** Undefined where nothing was ever counted. */
export function openStoredCounts(folder: string): StoredCounts | undefined {
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
      for (const kind of COUNT_DOCUMENTS)
        for (const row of rows.iterate(kind, now - documentKeptMs(kind)))
          yield {
            workspaceId: String(row.workspace_id),
            kind: row.kind as CountDocumentKey['kind'],
            start: Number(row.start),
            field: String(row.field),
            value: String(row.value),
          };
    },
    close: () => database.close(),
  };
}
