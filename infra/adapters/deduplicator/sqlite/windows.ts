import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import type { Clock } from '@tributary/core';
import { inTransaction } from '../../sqlite/database.ts';
import { ClaimsFile } from './claims-file.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS windows (
    file INTEGER PRIMARY KEY AUTOINCREMENT,
    starts INTEGER NOT NULL,
    ends INTEGER NOT NULL
  );
`;

export interface WindowsOptions {
  readonly folder: string;
  readonly windowMs: number;
  readonly clock: Clock;
}

export interface OpenWindows {
  /** Takes the claims of now. */
  readonly current: ClaimsFile;
  /** Every other stretch that is not forgotten yet. */
  readonly older: readonly ClaimsFile[];
}

interface Row {
  readonly file: number;
  readonly starts: number;
  readonly ends: number;
}

/**
 * The stretches of time whose claims are kept: half a window each, forgotten a window after their end. So a claim is
 * kept for one to one and a half windows, in at most three files.
 *
 * `windows.db` lists them and is the lock of the folder: all processes look and write under its write transaction,
 * so none decides by a stretch that another has just ended. A file's number is never used twice.
 */
export class Windows {
  readonly #options: WindowsOptions;
  readonly #list: DatabaseSync;
  readonly #open = new Map<number, ClaimsFile>();

  /** `list` is the folder's `windows.db`. */
  constructor(list: DatabaseSync, options: WindowsOptions) {
    this.#options = options;
    this.#list = list;
    inTransaction(this.#list, () => {
      this.#list.exec(SCHEMA);
      this.#removeUnlisted();
    });
  }

  /** Runs `work` while no other process looks at claims or writes them. */
  exclusively<T>(work: (windows: OpenWindows) => T): T {
    for (;;) {
      const now = this.#options.clock();
      const done = inTransaction(this.#list, () => {
        const rows = this.#rows();
        const current = rows.find(({ starts, ends }) => starts <= now && now < ends);
        if (current === undefined || rows.some((row) => this.#isOver(row, now)))
          return this.#turn(now, current);
        this.#closeAllBut(rows);
        const older = rows.filter((row) => row !== current).map((row) => this.#fileOf(row));
        return { result: work({ current: this.#fileOf(current), older }) };
      });
      if ('result' in done) return done.result;
      // Only now is it certain that nobody will look there again.
      for (const file of done.forgotten) this.#unlink(file);
    }
  }

  /**
   * The stretches that are not forgotten, newest first, without keeping anybody from claiming: what is claimed or
   * forgotten at this moment may be missed. One whose file is gone already is left out.
   */
  asListed(): readonly ClaimsFile[] {
    const now = this.#options.clock();
    const rows = this.#rows().filter((row) => !this.#isOver(row, now));
    this.#closeAllBut(rows);
    return rows
      .filter(({ file }) => this.#open.has(file) || existsSync(this.#path(file)))
      .map((row) => this.#fileOf(row));
  }

  close(): void {
    this.#closeAllBut([]);
  }

  /** Ends what is over and starts the stretch of now. Nothing is claimed before that is committed. */
  #turn(now: number, current: Row | undefined): { readonly forgotten: readonly number[] } {
    const forgotten = this.#rows().filter((row) => this.#isOver(row, now));
    for (const { file } of forgotten) this.#list.prepare('DELETE FROM windows WHERE file = ?').run(file);
    if (current === undefined) {
      const length = Math.max(1, Math.floor(this.#options.windowMs / 2));
      this.#list.prepare('INSERT INTO windows (starts, ends) VALUES (?, ?)').run(now, now + length);
    }
    return { forgotten: forgotten.map(({ file }) => file) };
  }

  #isOver(row: Row, now: number): boolean {
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

  #fileOf({ file }: Row): ClaimsFile {
    const open = this.#open.get(file) ?? new ClaimsFile(this.#path(file));
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

  /** Removes what a process that died between the list and the file left behind. */
  #removeUnlisted(): void {
    const listed = new Set(this.#rows().map(({ file }) => file));
    for (const name of readdirSync(this.#options.folder)) {
      const file = /^claims-(\d+)\.db/.exec(name)?.[1];
      if (file !== undefined && !listed.has(Number(file)))
        rmSync(join(this.#options.folder, name), { force: true });
    }
  }
}
