import type { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { WriteLog } from './write-log.ts';

export interface CarrierOptions {
  readonly file: string;
  readonly busyTimeoutMs: number;
  /**
   * The log is carried over when it has so many pages. Rarely much is better than often little, as a page that was
   * written several times is carried over once.
   */
  readonly manyPages: number;
  /** So many are left to the thread that writes. */
  readonly fewPages: number;
}

export type CarrierRequest = 'carry over' | 'close';
export type CarrierReply = 'carried over';

/**
 * Has the log of writes carried over by a thread beside the one that writes: it waits for the disk, and writes would
 * wait with it. The last few pages are the writer's own, between two transactions: only when none is left does SQLite
 * begin the log anew instead of adding to it. Nothing rests on the thread: without it the log grows up to the bound at
 * which SQLite has a commit carry it over.
 */
export class LogCarrier {
  readonly #options: CarrierOptions;
  readonly #log: WriteLog;
  #thread: Worker | undefined;
  #underWay = false;

  /** `database` is the writer's. */
  constructor(database: DatabaseSync, options: CarrierOptions) {
    this.#options = options;
    database.exec(`PRAGMA wal_autocheckpoint = ${2 * options.manyPages}`);
    this.#log = new WriteLog(database);
  }

  /** Something was committed. */
  committed(): void {
    if (this.#underWay) return;
    const { manyPages, fewPages } = this.#options;
    try {
      const { pages, left } = this.#log.size();
      if (pages < manyPages) return;
      if (left < 2 * fewPages) this.#log.carryOver();
      else this.#ask();
    } catch {
      // What was committed stays so. The next commit tries anew, and fails itself if the disk does.
    }
  }

  /** Waits for what is under way. */
  async close(): Promise<void> {
    const thread = this.#thread;
    if (thread === undefined) return;
    const exited = new Promise((resolve) => thread.once('exit', resolve));
    thread.postMessage('close' satisfies CarrierRequest);
    await exited;
  }

  #ask(): void {
    this.#underWay = true;
    this.#thread ??= this.#start();
    this.#thread.postMessage('carry over' satisfies CarrierRequest);
  }

  #start(): Worker {
    const thread = new Worker(new URL('./log-carrier-thread.ts', import.meta.url), {
      workerData: this.#options,
      execArgv: ['--report-exclude-env'],
    });
    thread.on('message', (_: CarrierReply) => {
      this.#underWay = false;
    });
    // The next commit asks anew.
    thread.on('error', () => {});
    thread.on('exit', () => {
      this.#thread = undefined;
      this.#underWay = false;
    });
    return thread;
  }
}
