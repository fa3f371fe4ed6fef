import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import type { DedupeClaim, Deduplicator, Position } from '@tributary/core';
import { GroupCommit } from '../../group-commit/group-commit.ts';
import { inTransaction, openDatabase, reading } from '../../sqlite/database.ts';
import { type ExportedDedupeClaim, rejectedIdOf } from '../digest.ts';
import {
  type ClaimFilesOptions,
  claimIdOf,
  DedupeClaimFiles,
  type OpenDedupeClaimFiles,
  type StoredDedupeClaim,
  storedWinners,
} from './dedupe-claim-files.ts';

export interface SqliteDeduplicatorOptions extends ClaimFilesOptions {
  /** How long a call waits for another process before it is `Unavailable`, ms. Default 5,000. */
  readonly busyTimeoutMs?: number;
}

/** How long files stay open after a winner was read. */
const KEPT_OPEN_MS = 500;

/**
 * A `Deduplicator` in files of one folder. A dedupe claim takes about 40 bytes on disk until it expires, and no memory
 * beyond a fixed page cache per file.
 */
export function openSqliteDeduplicator(options: SqliteDeduplicatorOptions): Deduplicator {
  const { folder, busyTimeoutMs } = options;
  const list = openDatabase(join(folder, 'windows.db'), { busyTimeoutMs });
  const sources = new Sources(list);
  const files = new DedupeClaimFiles(list, options);
  let closed = false;
  let closing: NodeJS.Timeout | undefined;
  /** An open file would keep its disk space after another process removed it; opening one takes a millisecond. */
  const closeSoon = () => {
    clearTimeout(closing);
    closing = setTimeout(() => files.close(), KEPT_OPEN_MS).unref();
  };
  const stored = (claimant: DedupeClaim): StoredDedupeClaim => {
    const claim = { id: claimIdOf(claimant), position: sources.textOf(claimant.position) };
    if (claimant.rejected === true) return { ...claim, kind: 'rejected' };
    return claimant.afterRejected === true ? { ...claim, kind: 'after rejected' } : claim;
  };
  // The partitions that claim in one turn of the event loop share a commit: the thread waits for the disk once.
  const commits = new GroupCommit<readonly StoredDedupeClaim[], readonly boolean[]>({
    async commit(group) {
      const claims = group.flat();
      const won = files.exclusively((open) => decide(open, claims));
      let at = 0;
      return group.map(({ length }) => {
        at += length;
        return won.slice(at - length, at);
      });
    },
    maxInFlight: 1,
    maxUnconfirmedBytes: Number.POSITIVE_INFINITY,
    maxGroupBytes: Number.POSITIVE_INFINITY,
  });
  return {
    async claim(claimants: readonly DedupeClaim[]) {
      return claimants.length === 0 ? [] : commits.add(claimants.map(stored), 0);
    },
    async winner(message) {
      return reading(() => {
        const id = claimIdOf(message);
        try {
          let rejected: string | undefined;
          for (const file of files.unlocked()) {
            const [winner, firstRejected] = file.winners([{ id }, { id: rejectedIdOf(id) }]);
            if (winner !== undefined) return sources.positionOf(winner);
            rejected = firstRejected ?? rejected;
          }
          return rejected === undefined ? undefined : sources.positionOf(rejected);
        } finally {
          closeSoon();
        }
      });
    },
    async close() {
      if (closed) return;
      closed = true;
      await commits.drained();
      clearTimeout(closing);
      files.close();
      list.close();
    },
  };
}

/** No position: the winner of a dedupe claim that needs a rejected event when there is none. */
const NO_POSITION = '';

/** The ids for the rejected events of the messages of claims of a kind, with the index of each claim. */
function rejectedIds(claims: readonly StoredDedupeClaim[], of: StoredDedupeClaim['kind']) {
  return claims.flatMap(({ id, kind }, index) => (kind === of ? [{ id: rejectedIdOf(id), index }] : []));
}

/**
 * True for each dedupe claim whose position is the winner: that of an older file, else the first one in the current file.
 * For rejected events, the winner among the rejected events comes first. A claim that can win only after a rejected event
 * and has none loses.
 */
function decide(
  { current, older }: OpenDedupeClaimFiles,
  claims: readonly StoredDedupeClaim[],
): readonly boolean[] {
  const winners = new Array<string | undefined>(claims.length).fill(undefined);
  const dependent = rejectedIds(claims, 'after rejected');
  const found = dependent.length === 0 ? [] : [current, ...older].map((file) => file.winners(dependent));
  for (const [at, { index }] of dependent.entries())
    if (found.every((rejected) => rejected[at] === undefined)) winners[index] = NO_POSITION;
  const rejected = rejectedIds(claims, 'rejected');
  for (const file of older)
    for (const [at, winner] of file.winners(rejected).entries()) {
      const index = rejected[at]?.index;
      if (index !== undefined) winners[index] ??= winner;
    }
  for (const file of older)
    for (const [index, winner] of file.winners(claims).entries()) winners[index] ??= winner;
  const undecided = claims.filter((_, index) => winners[index] === undefined);
  const decided = current.decide(undecided).values();
  return claims.map(({ position }, index) => (winners[index] ?? decided.next().value) === position);
}

const SOURCES_SCHEMA = `
  CREATE TABLE IF NOT EXISTS sources (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL UNIQUE
  );
`;

/**
 * Numbers for pairs of topic and partition, which shorten a stored position from thirty bytes to ten. A number is
 * committed before any dedupe claim uses it, and is never reused.
 */
class Sources {
  readonly #database: DatabaseSync;
  readonly #ids = new Map<string, string>();

  constructor(database: DatabaseSync) {
    this.#database = database;
    inTransaction(database, () => database.exec(SOURCES_SCHEMA));
  }

  /** A short text that is unique for each position. */
  textOf({ topic, partition, offset, index }: Position): string {
    const source = `${topic}/${partition}`;
    const id = this.#ids.get(source) ?? this.#register(source);
    return `${id}.${offset.toString(36)}.${index.toString(36)}`;
  }

  /** The position of a text; undefined for an unknown number. */
  positionOf(text: string): Position | undefined {
    return positionIn(text, (id) => {
      const row = this.#database.prepare('SELECT source FROM sources WHERE id = ?').get(id);
      return row === undefined ? undefined : String(row.source);
    });
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

/** The position of a text of `Sources.textOf`; undefined for an unknown number. */
function positionIn(text: string, sourceOf: (id: number) => string | undefined): Position | undefined {
  const [id = 0, offset, index] = text.split('.').map((part) => Number.parseInt(part, 36));
  const source = sourceOf(id);
  if (source === undefined || offset === undefined || index === undefined) return undefined;
  const cut = source.lastIndexOf('/');
  return { topic: source.slice(0, cut), partition: Number(source.slice(cut + 1)), offset, index };
}

/**
 * The dedupe claims of a folder that no process writes to, without those that are expired; of each message the winner first.
 */
export function* exportedDedupeClaims(
  folder: string,
  windowMs: number,
  now: number,
): Generator<ExportedDedupeClaim> {
  const file = join(folder, 'windows.db');
  if (!existsSync(file)) return;
  const list = openDatabase(file, { readOnly: true });
  try {
    const rows = list.prepare('SELECT id, source FROM sources').all();
    const sources = new Map(rows.map(({ id, source }) => [Number(id), String(source)]));
    // An older file decides before a newer one.
    for (const { file, ends } of list.prepare('SELECT file, ends FROM windows ORDER BY file').all()) {
      const keptUntil = Number(ends) + windowMs;
      const path = join(folder, `claims-${Number(file)}.db`);
      if (keptUntil <= now || !existsSync(path)) continue;
      for (const { digest, winner } of storedWinners(path)) {
        const position = positionIn(winner, (id) => sources.get(id));
        if (position === undefined) throw new Error(`${path} has a dedupe claim in an unknown format`);
        yield { digest, position, keptUntil };
      }
    }
  } finally {
    list.close();
  }
}
