import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import {
  ALL_SCOPES,
  applyIncrements,
  type Clock,
  COUNT_DOCUMENTS,
  type CountDocument,
  type CountDocumentKey,
  type CountedPartition,
  type Counters,
  type CountsBatch,
  type DocumentRange,
  documentKeptMs,
  documentName,
  documentStepMs,
  documentsOf,
  Fenced,
  type KeyUse,
} from '@tributary/core';
import { inTransaction, openDatabase, openStoreFile, reading } from '../../sqlite/database.ts';
import { DocumentCounters } from '../document-counters.ts';
import { importEarlierVolume } from './earlier-volume.ts';

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

export interface SqliteCountersOptions {
  /** Holds this store alone; several processes and threads may share it. */
  readonly folder: string;
  /** The folder of the volume counters of release 0.2.0, which are imported. */
  readonly volumeFolder?: string;
  readonly clock: Clock;
  /** How long a write waits for another process before it is `Unavailable`, ms. Default 5,000. */
  readonly busyTimeoutMs?: number | undefined;
}

/** `Counters` in one database file. Each batch is one transaction; reads never wait for writes. */
export function openSqliteCounters(options: SqliteCountersOptions): Counters {
  return new SqliteCounters(options);
}

class SqliteCounters extends DocumentCounters {
  readonly #writer: DatabaseSync;
  readonly #close: () => void;
  readonly #clock: Clock;
  readonly #statements: ReturnType<typeof prepare>;

  constructor({ folder, volumeFolder, clock, busyTimeoutMs }: SqliteCountersOptions) {
    super();
    const { writer, reader, close } = openStoreFile(
      join(folder, 'funnel.db'),
      (database) => {
        inTransaction(database, () => database.exec(SCHEMA));
        if (volumeFolder !== undefined) importEarlierVolume(database, volumeFolder, clock());
      },
      { busyTimeoutMs },
    );
    this.#writer = writer;
    this.#close = close;
    this.#clock = clock;
    this.#statements = prepare(writer, reader);
  }

  async applied({ topic, partition }: CountedPartition): Promise<number> {
    return Number(reading(() => this.#statements.applied.get(topic, partition))?.offset ?? 0);
  }

  async apply(batch: CountsBatch): Promise<void> {
    const { topic, partition, from, to, keyUses = [] } = batch;
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
      for (const { keyId, at } of keyUses) this.#statements.use.run(ALL_SCOPES, keyId, String(at));
      this.#statements.setApplied.run(topic, partition, to);
      const most = Math.max(DROPPED_AT_ONCE, changed.length);
      for (const kind of COUNT_DOCUMENTS)
        this.#statements.drop.run({ kind, before: now - documentKeptMs(kind), most });
    });
  }

  async lastUsed(keyIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const range = { workspaceId: ALL_SCOPES, kind: 'uses', from: 0, to: 0, fields: keyIds } as const;
    return new Map((await this.documents(range)).map(({ field, value }) => [field, Number(value)]));
  }

  async touch({ keyId, at }: KeyUse): Promise<void> {
    inTransaction(this.#writer, () => this.#statements.use.run(ALL_SCOPES, keyId, String(at)));
  }

  async close(): Promise<void> {
    this.#close();
  }

  protected async documents({
    workspaceId,
    kind,
    from,
    to,
    fields,
  }: DocumentRange): Promise<readonly CountDocument[]> {
    const documents: CountDocument[] = [];
    for (let start = from; start <= to; start += documentStepMs(kind)) {
      const key = [kind, start, workspaceId] as const;
      const rows = reading(() =>
        fields === undefined
          ? this.#statements.all.all(...key)
          : fields.flatMap((field) => this.#statements.one.all(...key, field)),
      );
      for (const { field, value } of rows)
        documents.push({ workspaceId, kind, start, field: String(field), value: String(value) });
    }
    return documents;
  }

  protected async add(documents: readonly CountDocument[]): Promise<void> {
    inTransaction(this.#writer, () => {
      for (const document of documents) this.#statements.add.run(...keyOf(document), document.value);
    });
  }
}

function keyOf({ kind, start, workspaceId, field }: CountDocumentKey) {
  return [kind, start, workspaceId, field] as const;
}

function prepare(writer: DatabaseSync, reader: DatabaseSync) {
  const applied = 'SELECT offset FROM applied WHERE topic = ? AND partition = ?';
  const all = 'SELECT field, value FROM documents WHERE kind = ? AND start = ? AND workspace_id = ?';
  const put = 'INSERT INTO documents (kind, start, workspace_id, field, value) VALUES (?, ?, ?, ?, ?)';
  return {
    applied: reader.prepare(applied),
    lockedApplied: writer.prepare(applied),
    setApplied: writer.prepare(
      'INSERT INTO applied (topic, partition, offset) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET offset = excluded.offset',
    ),
    all: reader.prepare(all),
    one: reader.prepare(`${all} AND field = ?`),
    get: writer.prepare(`${all} AND field = ?`),
    put: writer.prepare(`${put} ON CONFLICT DO UPDATE SET value = excluded.value`),
    add: writer.prepare(`${put} ON CONFLICT DO UPDATE SET value = value + excluded.value`),
    use: writer.prepare(
      `INSERT INTO documents (kind, start, workspace_id, field, value) VALUES ('uses', 0, ?, ?, ?)
       ON CONFLICT DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))`,
    ),
    drop: writer.prepare(
      `DELETE FROM documents WHERE (kind, start, workspace_id, field) IN (
         SELECT kind, start, workspace_id, field FROM documents WHERE kind = :kind AND start <= :before LIMIT :most
       )`,
    ),
  } satisfies Record<string, StatementSync>;
}

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
