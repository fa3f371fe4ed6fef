import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import {
  applyIncrements,
  bytesIn,
  bytesOfAll,
  type Clock,
  type CountedPartition,
  documentName,
  documentsOf,
  Fenced,
  FUNNEL_DOCUMENTS,
  type FunnelBatch,
  type FunnelDocument,
  type FunnelDocumentKey,
  type FunnelQuery,
  type FunnelRange,
  type FunnelRow,
  type FunnelSampleQuery,
  type FunnelStore,
  funnelKeptMs,
  funnelStepMs,
  isNameField,
  readFunnel,
  readFunnelSamples,
  type ScopeBytes,
} from '@tributary/core';
import { inTransaction, openDatabase, reading } from '../../sqlite/database.ts';

/** Keys begin with the interval, so that old ones are dropped from the front. */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS applied (
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS documents (
    kind TEXT NOT NULL,
    start INTEGER NOT NULL,
    workspace_id TEXT NOT NULL,
    field TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, start, workspace_id, field)
  ) WITHOUT ROWID;
`;

/** Expired documents of each kind that a batch drops at least: more where it writes many, so that none are left over. */
const DROPPED_AT_ONCE = 500;

export interface SqliteFunnelStoreOptions {
  /** Holds this store alone; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** How long a write waits for another process before it is `Unavailable`, ms. Default 5,000. */
  readonly busyTimeoutMs?: number;
}

/** `FunnelStore` in one database file. Each batch is one transaction; reads never wait for writes. */
export function openSqliteFunnelStore(options: SqliteFunnelStoreOptions): FunnelStore {
  return new SqliteFunnelStore(options);
}

class SqliteFunnelStore implements FunnelStore {
  readonly #writer: DatabaseSync;
  readonly #reader: DatabaseSync;
  readonly #clock: Clock;
  readonly #statements: ReturnType<typeof prepare>;
  #closed = false;

  constructor({ folder, clock, busyTimeoutMs }: SqliteFunnelStoreOptions) {
    const file = join(folder, 'funnel.db');
    this.#writer = openDatabase(file, busyTimeoutMs === undefined ? {} : { busyTimeoutMs });
    inTransaction(this.#writer, () => this.#writer.exec(SCHEMA));
    this.#reader = openDatabase(file, { readOnly: true });
    this.#clock = clock;
    this.#statements = prepare(this.#writer, this.#reader);
  }

  async applied({ topic, partition }: CountedPartition): Promise<number> {
    return Number(reading(() => this.#statements.applied.get(topic, partition))?.offset ?? 0);
  }

  async apply(batch: FunnelBatch): Promise<void> {
    const { topic, partition, from, to } = batch;
    const now = this.#clock();
    inTransaction(this.#writer, () => {
      const applied = Number(this.#statements.lockedApplied.get(topic, partition)?.offset ?? 0);
      if (applied !== from)
        throw new Fenced(`${topic}/${partition} is applied up to ${applied}, not ${from}`);
      const stored = new Map<string, string>();
      for (const key of documentsOf(batch, now)) {
        const value = this.#statements.get.get(...keyOf(key))?.value;
        if (typeof value === 'string') stored.set(documentName(key), value);
      }
      const changed = applyIncrements(batch, stored, now);
      for (const document of changed) this.#statements.put.run(...keyOf(document), document.value);
      this.#statements.setApplied.run(topic, partition, to);
      const most = Math.max(DROPPED_AT_ONCE, changed.length);
      for (const kind of FUNNEL_DOCUMENTS)
        this.#statements.drop.run({ kind, before: now - funnelKeptMs(kind), most });
    });
  }

  read(query: FunnelQuery): Promise<readonly FunnelRow[]> {
    return readFunnel(query, async (range) => this.#documents(range));
  }

  samples(query: FunnelSampleQuery): Promise<readonly string[]> {
    return readFunnelSamples(query, async (range) => this.#documents(range));
  }

  async bytes(interval: 'hour' | 'day', start: number): Promise<readonly ScopeBytes[]> {
    const { kind, workspaceId } = bytesOfAll(interval, start);
    const rows = reading(() => this.#statements.all.all(kind, start, workspaceId));
    return rows.map(({ field, value }) => bytesIn({ field: String(field), value: String(value) }));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#reader.close();
    this.#writer.close();
  }

  #documents({ workspaceId, kind, from, to, fields }: FunnelRange): readonly FunnelDocument[] {
    const documents: FunnelDocument[] = [];
    for (let start = from; start <= to; start += funnelStepMs(kind)) {
      const key = [kind, start, workspaceId] as const;
      const rows = reading(() =>
        fields === undefined
          ? this.#statements.all.all(...key)
          : fields.flatMap((field) => this.#statements.one.all(...key, field)),
      );
      for (const { field, value } of rows)
        if (fields !== undefined || isNameField(String(field)))
          documents.push({ workspaceId, kind, start, field: String(field), value: String(value) });
    }
    return documents;
  }
}

function keyOf({ kind, start, workspaceId, field }: FunnelDocumentKey) {
  return [kind, start, workspaceId, field] as const;
}

function prepare(writer: DatabaseSync, reader: DatabaseSync) {
  const applied = 'SELECT offset FROM applied WHERE topic = ? AND partition = ?';
  const all = 'SELECT field, value FROM documents WHERE kind = ? AND start = ? AND workspace_id = ?';
  return {
    applied: reader.prepare(applied),
    lockedApplied: writer.prepare(applied),
    setApplied: writer.prepare(
      'INSERT INTO applied (topic, partition, offset) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET offset = excluded.offset',
    ),
    all: reader.prepare(all),
    one: reader.prepare(`${all} AND field = ?`),
    get: writer.prepare(`${all} AND field = ?`),
    put: writer.prepare(
      `INSERT INTO documents (kind, start, workspace_id, field, value) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET value = excluded.value`,
    ),
    drop: writer.prepare(
      `DELETE FROM documents WHERE (kind, start, workspace_id, field) IN (
         SELECT kind, start, workspace_id, field FROM documents WHERE kind = :kind AND start <= :before LIMIT :most
       )`,
    ),
  } satisfies Record<string, StatementSync>;
}
