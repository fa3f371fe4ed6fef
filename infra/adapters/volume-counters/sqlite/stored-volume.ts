import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { CountedPartition, Environment, EventType, KeyUse, VolumeIncrement } from '@tributary/core';
import { openDatabase } from '../../sqlite/database.ts';

/** The counts of a partition. */
export interface StoredCount extends CountedPartition, VolumeIncrement {}

/** One measure of a transformation's runs in one hour. */
export interface StoredRuns {
  readonly workspaceId: string;
  readonly transformationId: string;
  /** Start of the hour, epoch ms. */
  readonly hour: number;
  readonly measure: string;
  readonly count: number;
}

/** The counters of a folder that no process writes to. */
export interface StoredVolume {
  applied(): readonly (CountedPartition & { readonly offset: number })[];
  counts(): Iterable<StoredCount>;
  runs(): Iterable<StoredRuns>;
  keyUses(): readonly KeyUse[];
  close(): void;
}

/** Undefined where nothing was ever counted. */
export function openStoredVolume(folder: string): StoredVolume | undefined {
  const file = join(folder, 'volume.db');
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
    *counts() {
      for (const row of database.prepare('SELECT * FROM counts').iterate())
        yield {
          topic: String(row.topic),
          partition: Number(row.partition),
          workspaceId: String(row.workspace_id),
          environment: row.environment as Environment,
          eventType: row.event_type as EventType,
          eventName: String(row.event_name),
          hour: Number(row.hour),
          count: Number(row.count),
        };
    },
    *runs() {
      for (const row of database.prepare('SELECT * FROM runs').iterate())
        yield {
          workspaceId: String(row.workspace_id),
          transformationId: String(row.transformation_id),
          hour: Number(row.hour),
          measure: String(row.measure),
          count: Number(row.count),
        };
    },
    keyUses: () =>
      database
        .prepare('SELECT key_id, at FROM key_uses')
        .all()
        .map(({ key_id, at }) => ({ keyId: String(key_id), at: Number(at) })),
    close: () => database.close(),
  };
}
