import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import {
  type Clock,
  type CountedPartition,
  type EventType,
  Fenced,
  type HourlyRuns,
  InvalidInput,
  type KeyUse,
  MAX_NAMES,
  OTHER_NAME,
  type RunQuery,
  type RunTally,
  type VolumeBatch,
  type VolumeCounters,
  type VolumeIncrement,
  type VolumeQuery,
  type VolumeRow,
} from '@tributary/core';
import { inTransaction, openDatabase, reading } from '../../sqlite/database.ts';
import { dayOf, Retention, SCHEMA } from './schema.ts';

/** Queries reach back 720 hours, i.e. a month and the current day. */
const MIN_RETENTION_DAYS = 31;

export interface SqliteVolumeCountersOptions {
  /** Holds this store alone; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** Days kept in addition to the current one. Default and minimum 31. */
  readonly retentionDays?: number;
  /** How long a write waits for another process before it is `Unavailable`, ms. Default 5,000. */
  readonly busyTimeoutMs?: number;
}

/** `VolumeCounters` in one database file. Each batch is one transaction; reads never wait for writes. */
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
    retentionDays = MIN_RETENTION_DAYS,
    busyTimeoutMs,
  }: SqliteVolumeCountersOptions) {
    if (!(retentionDays >= MIN_RETENTION_DAYS))
      throw new InvalidInput(`volume is kept for at least ${MIN_RETENTION_DAYS} days`);
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

  async runs({ workspaceId, transformationId, fromHour, toHour }: RunQuery): Promise<readonly HourlyRuns[]> {
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
    return [...Map.groupBy(rows, ({ hour }) => Number(hour))].map(([hour, of]) => ({
      hour,
      counts: Object.fromEntries(of.map(({ measure, count }) => [String(measure), Number(count)])),
    }));
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

/**
 * The event names that a partition counts separately: the first `MAX_NAMES` of each workspace and day. The selection depends
 * on earlier counts alone, so that a repeated batch is counted in the same way.
 */
class Names {
  readonly #known: StatementSync;
  readonly #add: StatementSync;
  readonly #take: StatementSync;

  constructor(database: DatabaseSync) {
    this.#known = database.prepare(
      'SELECT 1 FROM names WHERE day = ? AND workspace_id = ? AND topic = ? AND partition = ? AND name = ?',
    );
    this.#add = database.prepare(
      'INSERT INTO names (day, workspace_id, topic, partition, name) VALUES (?, ?, ?, ?, ?)',
    );
    this.#take = database.prepare(
      `INSERT INTO name_totals (day, workspace_id, topic, partition, total) VALUES (?, ?, ?, ?, 1)
       ON CONFLICT DO UPDATE SET total = total + 1 WHERE total < ${MAX_NAMES}`,
    );
  }

  /** The name to count under. To be called inside the counting transaction. */
  counted({ topic, partition }: CountedPartition, day: number, workspaceId: string, name: string): string {
    if (name === OTHER_NAME) return OTHER_NAME;
    const key = [day, workspaceId, topic, partition] as const;
    if (this.#known.get(...key, name) !== undefined) return name;
    if (this.#take.run(...key).changes === 0) return OTHER_NAME;
    this.#add.run(...key, name);
    return name;
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
       SELECT hour, measure, count
       FROM days CROSS JOIN runs USING (day)
       WHERE workspace_id = :workspace_id AND transformation_id = :transformation_id
         AND hour BETWEEN :from_hour AND :to_hour
       ORDER BY hour`,
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
