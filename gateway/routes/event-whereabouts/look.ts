import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { type EventLog, type LogEntry, type Looked, Unavailable } from '@tributary/core';

/** Bytes of one read: small, as an embedded log reads on the thread that answers everybody. */
const READ_BYTES = 128 * 1024;
/**
 * What is there and cannot be read yet, as a transaction before it is open, is waited for so long, ms: stages end theirs
 * sooner, and one whose process died stays open for long.
 */
const UNREADABLE_MS = 300;
const UNREADABLE_POLL_MS = 10;
/**
 * Reads and questions of one look under way at a time. An embedded engine answers them on this thread, and an event at a
 * thousand rules asks a thousand: others are answered between a few of them.
 */
const AT_A_TIME = 4;

/** A stretch of one partition: up to `to`, else to where it ends now. */
export interface Stretch {
  readonly topic: string;
  readonly partition: number;
  readonly from: number;
  readonly to?: number;
}

/** How a stretch ended: all of it was read, the visitor had enough, or some of it could not be read in time. */
export type ScanEnd = 'end' | 'enough' | 'gave up';

/**
 * One person's look into the log, with a time after which it reads no more: a question must not cost more than its
 * answer is worth, and what was not looked at is said.
 */
export class Look {
  readonly #log: Pick<EventLog, 'read' | 'end'>;
  readonly #elapsed: () => number;
  readonly #began: number;
  readonly #until: number;
  readonly #unanswered = new Set<string>();
  #entries = 0;
  #complete = true;
  #free = AT_A_TIME;
  readonly #waiting: (() => void)[] = [];

  /** `elapsed`: ms that never go back. */
  constructor(log: Pick<EventLog, 'read' | 'end'>, budgetMs: number, elapsed: () => number) {
    this.#log = log;
    this.#elapsed = elapsed;
    this.#began = elapsed();
    this.#until = this.#began + budgetMs;
  }

  looked(): Looked {
    return {
      complete: this.#complete && this.#unanswered.size === 0,
      entries: this.#entries,
      duration_ms: Math.round(this.#elapsed() - this.#began),
      unanswered: [...this.#unanswered],
    };
  }

  /** Hands on the entries of a stretch, in order, until the visitor answers `enough`. */
  async scan(stretch: Stretch, visit: (entry: LogEntry) => 'enough' | undefined): Promise<ScanEnd> {
    const { topic, partition } = stretch;
    const to = stretch.to ?? (await this.#log.end(topic, partition));
    let until = this.#until;
    for (let next = stretch.from; next < to; ) {
      if (this.#elapsed() >= until) {
        this.#complete = false;
        return 'gave up';
      }
      const read = await this.#oneOfFew(() =>
        this.#log.read(topic, partition, next, { maxBytes: READ_BYTES }),
      );
      for (const entry of read.entries) {
        if (entry.position.offset >= to) return 'end';
        this.#entries += 1;
        if (visit(entry) === 'enough') return 'enough';
      }
      if (read.next <= next) {
        until = Math.min(until, this.#elapsed() + UNREADABLE_MS);
        await sleep(UNREADABLE_POLL_MS);
        continue;
      }
      next = read.next;
      until = this.#until;
      await nextTurn(); // others are answered in between
    }
    return 'end';
  }

  /**
   * What an engine answers within the time that is left, which may be that it has nothing; `unanswered` when it does
   * not, which the look then says. What it answers later is nobody's business.
   */
  async ask<T>(engine: string, question: () => Promise<T>): Promise<T | 'unanswered'> {
    const left = Math.max(1, this.#until - this.#elapsed());
    let timer: NodeJS.Timeout | undefined;
    const tooLate = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Unavailable(`${engine} did not answer in time`)), left);
    });
    try {
      return await Promise.race([this.#oneOfFew(question), tooLate]);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      this.#unanswered.add(engine);
      return 'unanswered';
    } finally {
      clearTimeout(timer);
    }
  }

  /** Lets others be answered before it makes room for the next. */
  async #oneOfFew<T>(question: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((begin) => this.#waiting.push(begin));
    try {
      return await question();
    } finally {
      void nextTurn().then(() => {
        const next = this.#waiting.shift();
        if (next === undefined) this.#free += 1;
        else next();
      });
    }
  }
}
