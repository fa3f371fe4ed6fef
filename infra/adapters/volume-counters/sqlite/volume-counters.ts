import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import {
  type Clock,
  type CountedPartition,
  type EventType,
  Fenced,
  InvalidInput,
  type KeyUse,
  type RunCounts,
  type RunQuery,
  type RunTally,
  type VolumeBatch,
  type VolumeCounters,
  type VolumeIncrement,
  type VolumeQuery,
  type VolumeRow,
} from '@tributary/core';
import { inTransaction, openDatabase, reading } from '../../sqlite/database.ts';
import { Names } from './names.ts';
import { Retention } from './retention.ts';
import { dayOf, SCHEMA } from './schema.ts';

/** Look-backs reach 720 hours, so a whole month and the day under way must be there. */
const LEAST_RETENTION_DAYS = 31;

export interface SqliteVolumeCountersOptions {
  /** A folder of its own; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** Days kept besides the current one. Default and least 31. */
  readonly retentionDays?: number;
  /** How long a write waits for another process's, ms, before it is `Unavailable`. Default 5,000. */
  readonly busyTimeoutMs?: number;
}

/** `VolumeCounters` in one database file. Every batch is one transaction; reads never wait for one. */
export function openSqliteVolumeCounters(options: SqliteVolumeCountersOptions): VolumeCounters {
  return new SqliteVolumeCounters(options);
}

class SqliteVolumeCounters implements VolumeCounters {
  readonly #writer: DatabaseSync;
  readonly #reader: DatabaseSync;
  readonly #clock: Clock;
  readonly #retentionDays: number;
  readonly #names: Names;
  readonly #retention: Retention;
  readonly #statements: ReturnType<typeof prepare>;
  #closed = false;

  constructor({
    folder,
    clock,
    retentionDays = LEAST_RETENTION_DAYS,
    busyTimeoutMs,
  }: SqliteVolumeCountersOptions) {
    if (!(retentionDays >= LEAST_RETENTION_DAYS))
      throw new InvalidInput(`volume is kept for at least ${LEAST_RETENTION_DAYS} days`);
    const file = join(folder, 'volume.db');
    this.#writer = openDatabase(file, busyTimeoutMs === undefined ? {} : { busyTimeoutMs });
    inTransaction(this.#writer, () => this.#writer.exec(SCHEMA));
    this.#reader = openDatabase(file, { readOnly: true });
    this.#clock = clock;
    this.#retentionDays = retentionDays;
    this.#names = new Names(this.#writer);
    this.#retention = new Retention(this.#writer);
    this.#statements = prepare(this.#writer, this.#reader);
  }

  async applied({ topic, partition }: CountedPartition): Promise<number> {
    return Number(reading(() => this.#statements.applied.get(topic, partition))?.offset ?? 0);
  }

  async apply(batch: VolumeBatch): Promise<void> {
    const { topic, partition, from, to, increments, keyUses } = batch;
    inTransaction(this.#writer, () => {
      const stored = Number(this.#statements.lockedApplied.get(topic, partition)?.offset ?? 0);
      if (stored !== from) throw new Fenced(`${topic}/${partition} is applied up to ${stored}, not ${from}`);
      for (const increment of increments) this.#count(batch, increment);
      for (const use of keyUses) this.#statements.use.run(use.keyId, use.at);
      this.#statements.setApplied.run(topic, partition, to);
      this.#retention.dropBefore(dayOf(this.#clock()) - this.#retentionDays);
    });
  }

  async read({ workspaceId, fromHour, toHour, environment }: VolumeQuery): Promise<readonly VolumeRow[]> {
    const rows = reading(() =>
      this.#statements.read.all({
        first_day: dayOf(fromHour),
        last_day: dayOf(toHour),
        workspace_id: workspaceId,
        from_hour: fromHour,
        to_hour: toHour,
        environment: environment ?? null,
      }),
    );
    return rows.map(rowOf);
  }

  async lastUsed(keyIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return reading(() => {
      const found = keyIds.map((keyId) => [keyId, this.#statements.lastUsed.get(keyId)?.at] as const);
      return new Map(found.flatMap(([keyId, at]) => (typeof at === 'number' ? [[keyId, at]] : [])));
    });
  }

  async touch({ keyId, at }: KeyUse): Promise<void> {
    inTransaction(this.#writer, () => this.#statements.use.run(keyId, at));
  }

  async addRuns(tallies: readonly RunTally[]): Promise<void> {
    inTransaction(this.#writer, () => {
      for (const { workspaceId, transformationId, hour, counts } of tallies)
        for (const [measure, count] of Object.entries(counts))
          this.#statements.addRuns.run(dayOf(hour), workspaceId, transformationId, hour, measure, count);
      this.#retention.dropBefore(dayOf(this.#clock()) - this.#retentionDays);
    });
  }

  async runs({ workspaceId, transformationId, fromHour, toHour }: RunQuery): Promise<RunCounts> {
    const rows = reading(() =>
      this.#statements.runs.all({
        first_day: dayOf(fromHour),
        last_day: dayOf(toHour),
        workspace_id: workspaceId,
        transformation_id: transformationId,
        from_hour: fromHour,
        to_hour: toHour,
      }),
    );
    return Object.fromEntries(rows.map(({ measure, count }) => [String(measure), Number(count)]));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#reader.close();
    this.#writer.close();
  }

  #count(partition: CountedPartition, increment: VolumeIncrement): void {
    const { workspaceId, environment, eventType, eventName, hour, count } = increment;
    const day = dayOf(hour);
    const name = this.#names.counted(partition, day, workspaceId, eventName);
    const key = [
      day,
      workspaceId,
      hour,
      environment,
      eventType,
      name,
      partition.topic,
      partition.partition,
    ] as const;
    this.#statements.count.run(...key, count);
  }
}

function prepare(writer: DatabaseSync, reader: DatabaseSync) {
  const applied = 'SELECT offset FROM applied WHERE topic = ? AND partition = ?';
  return {
    applied: reader.prepare(applied),
    lockedApplied: writer.prepare(applied),
    setApplied: writer.prepare(
      'INSERT INTO applied (topic, partition, offset) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET offset = excluded.offset',
    ),
    count: writer.prepare(
      `INSERT INTO counts (day, workspace_id, hour, environment, event_type, event_name, topic, partition, count)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count`,
    ),
    use: writer.prepare(
      'INSERT INTO key_uses (key_id, at) VALUES (?, ?) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)',
    ),
    addRuns: writer.prepare(
      `INSERT INTO runs (day, workspace_id, transformation_id, hour, measure, count)
       VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count`,
    ),
    runs: reader.prepare(
      `WITH RECURSIVE days(day) AS (
         SELECT :first_day UNION ALL SELECT day + 1 FROM days WHERE day < :last_day
       )
       SELECT measure, sum(count) AS count
       FROM days CROSS JOIN runs USING (day)
       WHERE workspace_id = :workspace_id AND transformation_id = :transformation_id
         AND hour BETWEEN :from_hour AND :to_hour
       GROUP BY measure`,
    ),
    lastUsed: reader.prepare('SELECT at FROM key_uses WHERE key_id = ?'),
    read: reader.prepare(
      `WITH RECURSIVE days(day) AS (
         SELECT :first_day UNION ALL SELECT day + 1 FROM days WHERE day < :last_day
       )
       SELECT event_type, event_name, hour, sum(count) AS count
       FROM days CROSS JOIN counts USING (day)
       WHERE workspace_id = :workspace_id AND hour BETWEEN :from_hour AND :to_hour
         AND (:environment IS NULL OR environment = :environment)
       GROUP BY hour, event_type, event_name
       ORDER BY hour, event_type, event_name`,
    ),
  } satisfies Record<string, StatementSync>;
}

function rowOf(row: Record<string, unknown>): VolumeRow {
  return {
    eventType: row.event_type as EventType,
    eventName: String(row.event_name),
    hour: Number(row.hour),
    count: Number(row.count),
  };
}
