import type { EventLog, LogEntry } from '@tributary/core';

/** Offsets of the first stretch that is read; each further one is twice as long, up to the last figure. */
const FIRST_STRETCH = 200;
const LONGEST_STRETCH = 3_200;

/**
 * Reads one partition from where it ends now towards its beginning, one stretch at a time, as a log is only read
 * forwards. Inside a stretch the entries come in their order.
 */
export class Backwards {
  readonly #log: Pick<EventLog, 'read'>;
  readonly #topic: string;
  readonly #partition: number;
  /** What lies below is not kept, or was stamped before the time that was asked for. */
  readonly #low: number;
  #high: number;
  #stretch = FIRST_STRETCH;

  private constructor(
    log: Pick<EventLog, 'read'>,
    { topic, partition, low, high }: { topic: string; partition: number; low: number; high: number },
  ) {
    this.#log = log;
    this.#topic = topic;
    this.#partition = partition;
    this.#low = low;
    this.#high = high;
  }

  /** What the log took at `since` (epoch ms) or later, and has by now. */
  static async open(
    log: Pick<EventLog, 'read' | 'end' | 'first' | 'offsetAt'>,
    topic: string,
    partition: number,
    since: number,
  ): Promise<Backwards> {
    const high = await log.end(topic, partition);
    const first = await log.first(topic, partition);
    const low = first < high ? Math.max(first, await log.offsetAt(topic, partition, since)) : high;
    return new Backwards(log, { topic, partition, low, high });
  }

  /** Everything down to the beginning was read. */
  get isDone(): boolean {
    return this.#high <= this.#low;
  }

  /** The next stretch, in pieces of about `maxBytes`. Who leaves it early has not read all of it. */
  async *stretch(maxBytes: number): AsyncGenerator<readonly LogEntry[]> {
    const from = Math.max(this.#low, this.#high - this.#stretch);
    for (let next = from; next < this.#high; ) {
      const read = await this.#log.read(this.#topic, this.#partition, next, { maxBytes });
      const entries = read.entries.filter(({ position }) => position.offset < this.#high);
      if (entries.length > 0) yield entries;
      // Nothing readable is left where the log does not move on.
      next = read.next > next ? read.next : this.#high;
    }
    this.#high = from;
    this.#stretch = Math.min(2 * this.#stretch, LONGEST_STRETCH);
  }
}
