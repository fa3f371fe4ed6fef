import type { DatabaseSync } from 'node:sqlite';
import type { Position } from '@tributary/core';
import { inTransaction } from '../../sqlite/database.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS sources (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL UNIQUE
  );
`;

/**
 * Numbers that stand for a topic and partition, so that a winner takes ten bytes and not thirty. A number is committed
 * before any claim is written with it, and is never given to another.
 */
export class Sources {
  readonly #database: DatabaseSync;
  readonly #ids = new Map<string, string>();

  constructor(database: DatabaseSync) {
    this.#database = database;
    inTransaction(database, () => database.exec(SCHEMA));
  }

  /** A short text that is the same for the same position, and for no other. */
  shortOf({ topic, partition, offset, index }: Position): string {
    const source = `${topic}/${partition}`;
    const id = this.#ids.get(source) ?? this.#register(source);
    return `${id}.${offset.toString(36)}.${index.toString(36)}`;
  }

  /** The position a short text stands for; undefined for a number that no process has given. */
  positionOf(text: string): Position | undefined {
    const [id, offset, index] = text.split('.').map((part) => Number.parseInt(part, 36));
    if (id === undefined || offset === undefined || index === undefined) return undefined;
    const row = this.#database.prepare('SELECT source FROM sources WHERE id = ?').get(id);
    if (row === undefined) return undefined;
    const source = String(row.source);
    const cut = source.lastIndexOf('/');
    return { topic: source.slice(0, cut), partition: Number(source.slice(cut + 1)), offset, index };
  }

  #register(source: string): string {
    const row = inTransaction(this.#database, () => {
      this.#database.prepare('INSERT INTO sources (source) VALUES (?) ON CONFLICT DO NOTHING').run(source);
      return this.#database.prepare('SELECT id FROM sources WHERE source = ?').get(source);
    });
    const id = Number(row?.id).toString(36);
    this.#ids.set(source, id);
    return id;
  }
}
