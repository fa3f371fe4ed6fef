import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { walPagesBeside } from './database.ts';
import { StoreThread } from './store-thread.ts';

export interface CheckpointOptions {
  readonly file: string;
  /**
   * Number of pages in the write-ahead log at which a checkpoint begins, less on a small disk. Few large checkpoints cost
   * less than many small ones, as a page that was written several times is copied once.
   */
  readonly checkpointPages: number;
  /** Number of pages that the writing thread may checkpoint itself. */
  readonly inlinePages: number;
}

/**
 * Checkpoints a database's write-ahead log in another thread, so that writes do not wait for the disk meanwhile.
 *
 * - The writing thread copies the last few pages itself, between two transactions: SQLite restarts the log instead of
 *   growing it only when no page is left.
 * - Nothing depends on the thread: without it the log grows up to the bound at which SQLite checkpoints in a commit.
 */
export class WalCheckpointer {
  readonly #options: CheckpointOptions;
  readonly #wal: WriteAheadLog;
  /** If it dies, the next commit starts another one. */
  readonly #thread: StoreThread<'checkpoint', undefined>;
  #isUnderWay = false;

  /** `database` is the writer's. */
  constructor(database: DatabaseSync, options: CheckpointOptions) {
    const checkpointPages = walPagesBeside(options.file, options.checkpointPages);
    this.#options = { ...options, checkpointPages };
    database.exec(`PRAGMA wal_autocheckpoint = ${2 * checkpointPages}`);
    this.#wal = new WriteAheadLog(database);
    this.#thread = new StoreThread({
      program: new URL('./wal-checkpoint-thread.ts', import.meta.url),
      workerData: this.#options,
      onDied: () => {},
    });
  }

  /** To be called after commits: begins a checkpoint when the log is long. */
  committed(): void {
    if (this.#isUnderWay) return;
    const { checkpointPages, inlinePages } = this.#options;
    try {
      const { pages, left } = this.#wal.size();
      if (pages < checkpointPages) return;
      if (left < 2 * inlinePages) this.#wal.checkpoint();
      else void this.#checkpoint();
    } catch {
      // Commits stay durable. The next one tries again, and fails itself if the disk fails.
    }
  }

  /** Waits for a checkpoint that is under way. */
  close(): Promise<void> {
    return this.#thread.close();
  }

  async #checkpoint(): Promise<void> {
    this.#isUnderWay = true;
    await this.#thread.ask('checkpoint').catch(() => {});
    this.#isUnderWay = false;
  }
}

/**
 * The write-ahead log of a database file, in pages. SQLite restarts it with the first write after a complete checkpoint,
 * unless a reader uses it at that moment.
 */
export class WriteAheadLog {
  readonly #size: StatementSync;
  readonly #checkpoint: StatementSync;

  constructor(database: DatabaseSync) {
    this.#size = database.prepare('PRAGMA wal_checkpoint(NOOP)');
    this.#checkpoint = database.prepare('PRAGMA wal_checkpoint(PASSIVE)');
  }

  /** The length of the log, and the number of pages not checkpointed yet. */
  size(): { readonly pages: number; readonly left: number } {
    const { log, checkpointed } = counts(this.#size);
    return { pages: log, left: log - checkpointed };
  }

  /**
   * Checkpoints all committed pages beside readers and writers. Returns the number of checkpointed pages since the log
   * was restarted; undefined while another checkpoint runs.
   */
  checkpoint(): number | undefined {
    const { busy, checkpointed } = counts(this.#checkpoint);
    return busy === 0 ? checkpointed : undefined;
  }
}

function counts(statement: StatementSync) {
  const { busy, log, checkpointed } = statement.get() ?? {};
  return { busy: Number(busy), log: Number(log), checkpointed: Number(checkpointed) };
}
