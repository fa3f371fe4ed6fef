import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Clock, Message } from '@tributary/core';
import { inTransaction, openDatabase, walPagesBeside } from '../../sqlite/database.ts';
import { digestOf, rejectedIdOf } from '../digest.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS windows (
    file INTEGER PRIMARY KEY AUTOINCREMENT,
    starts INTEGER NOT NULL,
    ends INTEGER NOT NULL
  );
`;

export interface ClaimFilesOptions {
  /** Holds this store alone; several processes may share it. */
  readonly folder: string;
  /** How long a `message_id` is kept at least, ms. */
  readonly windowMs: number;
  readonly clock: Clock;
  /** Whether new files may have ids with a time, which 0.2.0 does not find. Default: yes. */
  readonly mayBeTimed?: () => boolean;
}

export interface OpenDedupeClaimFiles {
  /** For new dedupe claims. */
  readonly current: ClaimFile;
  /** The other files that are not expired. */
  readonly older: readonly ClaimFile[];
}

interface Row {
  readonly file: number;
  readonly starts: number;
  readonly ends: number;
}

/**
 * The files of dedupe claims. Each holds the claims of half a window, and is removed a window after its end: a claim is kept
 * for one to one and a half windows, in at most three files.
 *
 * `windows.db` lists the files and is the lock of the folder: all processes read and write claims in its write transaction,
 * so that none uses a file that another has just removed. File numbers are never reused.
 */
export class DedupeClaimFiles {
  readonly #options: ClaimFilesOptions;
  readonly #list: DatabaseSync;
  readonly #open = new Map<number, ClaimFile>();

  /** `list` is the folder's `windows.db`. */
  constructor(list: DatabaseSync, options: ClaimFilesOptions) {
    this.#options = options;
    this.#list = list;
    inTransaction(this.#list, () => {
      this.#list.exec(SCHEMA);
      this.#removeUnlisted();
    });
  }

  /** Runs `work` while no other process reads or writes dedupe claims. */
  exclusively<T>(work: (files: OpenDedupeClaimFiles) => T): T {
    for (;;) {
      const now = this.#options.clock();
      const done = inTransaction(this.#list, () => {
        const rows = this.#rows();
        const current = rows.find(({ starts, ends }) => starts <= now && now < ends);
        if (current === undefined || rows.some((row) => this.#isExpired(row, now)))
          return this.#rotate(now, current);
        this.#closeAllBut(rows);
        const older = rows.filter((row) => row !== current).map((row) => this.#fileOf(row));
        return { result: work({ current: this.#fileOf(current), older }) };
      });
      if ('result' in done) return done.result;
      // After the commit, no process opens these files again.
      for (const file of done.expired) this.#unlink(file);
    }
  }

  /**
   * The files that are not expired, newest first, without a lock: dedupe claims made at this moment may be missed, and a
   * file that was just removed is left out.
   */
  unlocked(): readonly ClaimFile[] {
    const now = this.#options.clock();
    const rows = this.#rows().filter((row) => !this.#isExpired(row, now));
    this.#closeAllBut(rows);
    return rows
      .filter(({ file }) => this.#open.has(file) || existsSync(this.#path(file)))
      .map((row) => this.#fileOf(row));
  }

  close(): void {
    this.#closeAllBut([]);
  }

  /** Removes expired files from the list and adds a current one. It is committed before any dedupe claim. */
  #rotate(now: number, current: Row | undefined): { readonly expired: readonly number[] } {
    const expired = this.#rows().filter((row) => this.#isExpired(row, now));
    for (const { file } of expired) this.#list.prepare('DELETE FROM windows WHERE file = ?').run(file);
    if (current === undefined) {
      const length = Math.max(1, Math.floor(this.#options.windowMs / 2));
      this.#list.prepare('INSERT INTO windows (starts, ends) VALUES (?, ?)').run(now, now + length);
    }
    return { expired: expired.map(({ file }) => file) };
  }

  #isExpired(row: Row, now: number): boolean {
    return row.ends + this.#options.windowMs <= now;
  }

  #rows(): readonly Row[] {
    const rows = this.#list.prepare('SELECT file, starts, ends FROM windows ORDER BY file DESC').all();
    return rows.map((row) => ({
      file: Number(row.file),
      starts: Number(row.starts),
      ends: Number(row.ends),
    }));
  }

  #fileOf({ file }: Row): ClaimFile {
    const { mayBeTimed = () => true } = this.#options;
    const open = this.#open.get(file) ?? new ClaimFile(this.#path(file), mayBeTimed());
    this.#open.set(file, open);
    return open;
  }

  #closeAllBut(rows: readonly Row[]): void {
    for (const [file, open] of this.#open) {
      if (rows.some((row) => row.file === file)) continue;
      this.#open.delete(file);
      open.close();
    }
  }

  #path(file: number): string {
    return join(this.#options.folder, `claims-${file}.db`);
  }

  #unlink(file: number): void {
    this.#open.get(file)?.close();
    this.#open.delete(file);
    for (const suffix of ['', '-wal', '-shm']) rmSync(this.#path(file) + suffix, { force: true });
  }

  /** Removes files that a process left which died between updating the list and removing the file. */
  #removeUnlisted(): void {
    const listed = new Set(this.#rows().map(({ file }) => file));
    for (const name of readdirSync(this.#options.folder)) {
      const file = /^claims-(\d+)\.db/.exec(name)?.[1];
      if (file !== undefined && !listed.has(Number(file)))
        rmSync(join(this.#options.folder, name), { force: true });
    }
  }
}

/** Ids without a time are random, and each changes a page: a large cache and rare checkpoints write it less often. */
const CHECKPOINT_PAGES = 16_000;
const CACHE_KIB = 16_000;

/** Tables of claims. Ids in `claims`, which 0.2.0 writes, have no time. */
const TIMED = 'timed_claims';
const UNTIMED = 'claims';

/** The table that a file has; undefined for a new file. */
function tableIn(database: DatabaseSync): string | undefined {
  const tables = database.prepare('SELECT name FROM sqlite_master WHERE name IN (?, ?) ORDER BY name DESC');
  const name = tables.get(TIMED, UNTIMED)?.name;
  return name === undefined ? undefined : String(name);
}

/** Bytes of the time in an id. */
const TIME_BYTES = 6;
/** Bytes of the longest id without a time: that of the rejected events of a message. */
const UNTIMED_BYTES = 17;

/** UUIDv7, which the gateway assigns, and ids of Segment's SDKs, such as `ajs-next-1764470400000-…`. */
const TIME = /^(?:([0-9a-f]{8})-([0-9a-f]{4})-7|\D*(\d{13})-)/i;

/**
 * The id of a message in a file: its digest, behind the time in its `message_id` where that has one, so that claims of about one
 * time change the same few pages.
 */
export function claimIdOf(message: Message): Uint8Array {
  const digest = digestOf(message);
  const found = TIME.exec(message.messageId);
  if (found === null) return digest;
  const [, high = '', low = '', decimal] = found;
  const id = Buffer.allocUnsafe(TIME_BYTES + digest.length);
  id.writeUIntBE(decimal === undefined ? Number.parseInt(high + low, 16) : Number(decimal), 0, TIME_BYTES);
  id.set(digest, TIME_BYTES);
  return id;
}

function withoutTime(id: Uint8Array): Uint8Array {
  return id.length > UNTIMED_BYTES ? id.subarray(TIME_BYTES) : id;
}

/** A dedupe claim in its stored form: the id of the message, and the claiming position as a short text. */
export interface StoredDedupeClaim {
  readonly id: Uint8Array;
  readonly position: string;
  /** Of a rejected event, or one that can win only after a rejected event. Claims of these are by `rejectedIdOf` the id too. */
  readonly kind?: 'rejected' | 'after rejected';
}

/** The winners of half a window, in a file of their own, so that expiry is the removal of the file. */
export class ClaimFile {
  readonly #database: DatabaseSync;
  readonly #isTimed: boolean;
  readonly #find: StatementSync;
  readonly #insert: StatementSync;

  /** `mayBeTimed`: for a new file. */
  constructor(path: string, mayBeTimed: boolean) {
    this.#database = openDatabase(path);
    this.#database.exec(
      `PRAGMA cache_size = -${CACHE_KIB}; PRAGMA wal_autocheckpoint = ${walPagesBeside(path, CHECKPOINT_PAGES)}`,
    );
    const table = tableIn(this.#database) ?? inTransaction(this.#database, () => this.#create(mayBeTimed));
    this.#isTimed = table === TIMED;
    this.#find = this.#database.prepare(`SELECT winner FROM ${table} WHERE id = ?`);
    this.#insert = this.#database.prepare(
      `INSERT INTO ${table} (id, winner) VALUES (?, ?) ON CONFLICT DO NOTHING`,
    );
  }

  /** Unless another process did. */
  #create(mayBeTimed: boolean): string {
    const table = tableIn(this.#database) ?? (mayBeTimed ? TIMED : UNTIMED);
    this.#database.exec(
      `CREATE TABLE IF NOT EXISTS ${table} (id BLOB PRIMARY KEY, winner TEXT NOT NULL) WITHOUT ROWID`,
    );
    return table;
  }

  /** The winner of each dedupe claim's message, where this file has one. */
  winners(claims: readonly Pick<StoredDedupeClaim, 'id'>[]): readonly (string | undefined)[] {
    this.#database.exec('BEGIN');
    try {
      return claims.map(({ id }) => this.#winner(id));
    } finally {
      this.#database.exec('COMMIT');
    }
  }

  /**
   * Stores the first position of each message as its winner, in one durable transaction. Returns the winners; for a
   * rejected event, the first rejected one, or the winner of its message if that came before.
   */
  decide(claims: readonly StoredDedupeClaim[]): readonly string[] {
    return inTransaction(this.#database, () => claims.map((claim) => this.#decideOne(claim)));
  }

  close(): void {
    this.#database.close();
  }

  #decideOne({ id, position, kind }: StoredDedupeClaim): string {
    if (kind === 'rejected') {
      const rejectedId = rejectedIdOf(id);
      const stored = this.#winner(rejectedId) ?? this.#winner(id);
      return stored ?? this.#decideOne({ id: rejectedId, position });
    }
    if (this.#insert.run(this.#stored(id), position).changes === 1) return position;
    return this.#winner(id) ?? position;
  }

  #winner(id: Uint8Array): string | undefined {
    const winner = this.#find.get(this.#stored(id))?.winner;
    return typeof winner === 'string' ? winner : undefined;
  }

  #stored(id: Uint8Array): Uint8Array {
    return this.#isTimed ? id : withoutTime(id);
  }
}

/** The digests and winners of a file; of each message the winner before that of its rejected events. */
export function* storedWinners(
  path: string,
): Generator<{ readonly digest: Uint8Array; readonly winner: string }> {
  const database = openDatabase(path, { readOnly: true });
  try {
    const table = tableIn(database) ?? TIMED;
    for (const { id, winner } of database.prepare(`SELECT id, winner FROM ${table} ORDER BY id`).iterate())
      if (id instanceof Uint8Array) yield { digest: withoutTime(id), winner: String(winner) };
  } finally {
    database.close();
  }
}
