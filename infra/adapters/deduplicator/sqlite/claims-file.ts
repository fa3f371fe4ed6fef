import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { inTransaction, openDatabase } from '../../sqlite/database.ts';

/** Keys are random, so every batch touches pages all over: a larger cache and rarer checkpoints write each less often. */
const SCHEMA = `
  PRAGMA cache_size = -16000;
  PRAGMA wal_autocheckpoint = 16000;
  CREATE TABLE IF NOT EXISTS claims (
    id BLOB PRIMARY KEY,
    winner TEXT NOT NULL
  ) WITHOUT ROWID;
`;

/** One claim: the digest of the message, and the position that asks for it, as short text. */
export interface Claim {
  readonly id: Uint8Array;
  readonly position: string;
  /** Of a rejected event: the id that stands for the rejected ones of its message. */
  readonly rejectedId?: Uint8Array;
  /** The same of a claim that counts only where there is a rejected one. */
  readonly afterRejectedId?: Uint8Array;
}

/** The winners of one stretch of time, in a file of their own: forgetting all of them is to unlink it. */
export class ClaimsFile {
  readonly #database: DatabaseSync;
  readonly #find: StatementSync;
  readonly #insert: StatementSync;

  constructor(path: string) {
    this.#database = openDatabase(path);
    this.#database.exec(SCHEMA);
    this.#find = this.#database.prepare('SELECT winner FROM claims WHERE id = ?');
    this.#insert = this.#database.prepare(
      'INSERT INTO claims (id, winner) VALUES (?, ?) ON CONFLICT DO NOTHING',
    );
  }

  /** The winner of each claim's message where this file knows one. */
  winners(claims: readonly Pick<Claim, 'id'>[]): readonly (string | undefined)[] {
    this.#database.exec('BEGIN');
    try {
      return claims.map(({ id }) => this.#winner(id));
    } finally {
      this.#database.exec('COMMIT');
    }
  }

  /**
   * Lets the first position that asks for a message win, durably, all in one transaction. Answers the winners: of a
   * rejected claim the first rejected one, or the winner of its message where that came before.
   */
  decide(claims: readonly Claim[]): readonly string[] {
    return inTransaction(this.#database, () => claims.map((claim) => this.#decideOne(claim)));
  }

  close(): void {
    this.#database.close();
  }

  #decideOne({ id, position, rejectedId }: Claim): string {
    if (rejectedId !== undefined) {
      const known = this.#winner(rejectedId) ?? this.#winner(id);
      return known ?? this.#decideOne({ id: rejectedId, position });
    }
    if (this.#insert.run(id, position).changes === 1) return position;
    return this.#winner(id) ?? position;
  }

  #winner(id: Uint8Array): string | undefined {
    const winner = this.#find.get(id)?.winner;
    return typeof winner === 'string' ? winner : undefined;
  }
}
