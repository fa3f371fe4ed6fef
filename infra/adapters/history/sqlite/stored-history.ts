import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type HistoryEntry, type HistoryKind, InvalidInput } from '@tributary/core';
import { openDatabase } from '../../sqlite/database.ts';
import { entryOf, isCurrent } from './schema.ts';

/** An entry with its number, which grows in the order of first puts. */
export interface StoredEntry {
  readonly number: number;
  readonly entry: HistoryEntry;
}

export interface StoredCount {
  readonly kind: HistoryKind;
  readonly workspaceId: string;
  readonly count: number;
}

/** The history of a folder that no process writes to. */
export interface StoredHistory {
  /** The next entries, in the order of their numbers, at most `limit` and some MB of them; empty at the end. */
  after(number: number, limit: number): readonly StoredEntry[];
  /** The time of the last put of any entry of each day (UTC, counted from the epoch) of `at`, epoch ms. */
  lastPuts(): ReadonlyMap<number, number>;
  /** Entries of each kind and workspace. */
  counts(): readonly StoredCount[];
  close(): void;
}

const DAY_MS = 86_400_000;

/** Characters of the entries of one page; an entry may have more. */
const PAGE_CHARACTERS = 8 * 1024 * 1024;

export function dayOf(at: number): number {
  return Math.floor(at / DAY_MS);
}

/** Undefined where nothing was ever put. `InvalidInput` where an older release wrote the file. */
export function openStoredHistory(folder: string): StoredHistory | undefined {
  const file = join(folder, 'history.db');
  if (!existsSync(file)) return undefined;
  const database = openDatabase(file, { readOnly: true });
  if (!isCurrent(database)) {
    database.close();
    throw new InvalidInput(`${file} was written by another release: start this one on the folder once`);
  }
  const after = database.prepare('SELECT * FROM entries WHERE entry > ? ORDER BY entry LIMIT ?');
  return {
    after(number, limit) {
      const page: StoredEntry[] = [];
      let characters = 0;
      for (const row of after.iterate(number, limit)) {
        page.push({ number: Number(row.entry), entry: entryOf(row) });
        characters += String(row.body).length + String(row.detail ?? '').length;
        if (characters >= PAGE_CHARACTERS) break;
      }
      return page;
    },
    lastPuts() {
      const days = new Map<number, number>();
      for (const { at, written_at } of database.prepare('SELECT at, written_at FROM entries').iterate()) {
        const day = dayOf(Number(at));
        days.set(day, Math.max(days.get(day) ?? 0, Number(written_at)));
      }
      return days;
    },
    counts: () =>
      database
        .prepare('SELECT kind, workspace_id, count(*) AS count FROM entries GROUP BY kind, workspace_id')
        .all()
        .map(({ kind, workspace_id, count }) => ({
          kind: kind as HistoryKind,
          workspaceId: String(workspace_id),
          count: Number(count),
        })),
    close: () => database.close(),
  };
}
