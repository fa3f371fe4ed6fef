import type { TopicGroupReader } from './topic-group-reader.ts';

/** Intervals at which the files are polled for writes of other threads and processes, ms: normally, and when idle. */
const POLL_MS = 5;
const IDLE_POLL_MS = 20;
const IDLE_AFTER_MS = 10_000;

interface Waiter {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly wake: () => void;
}

/** Wakes reads that wait for new records of one topic group. Polls the files only while there are waiters. */
export class TopicGroupWatch {
  readonly #reader: TopicGroupReader;
  readonly #waiters = new Map<string, Set<Waiter>>();
  #timer: NodeJS.Timeout | undefined;
  #lastChange = performance.now();
  #seenChanges = 0;

  constructor(reader: TopicGroupReader) {
    this.#reader = reader;
  }

  /** Resolves when the partition has a record at or after `offset`, after `timeoutMs`, or when a signal aborts. */
  until(
    topic: string,
    partition: number,
    offset: number,
    signals: readonly AbortSignal[],
    timeoutMs?: number,
  ): Promise<void> {
    if (this.#reader.end(topic, partition) > offset || signals.some((signal) => signal.aborted)) {
      return Promise.resolve();
    }
    return new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timeout);
        for (const signal of signals) signal.removeEventListener('abort', wake);
        this.#remove(waiter);
        resolve();
      };
      const waiter = { topic, partition, offset, wake };
      const timeout = timeoutMs === undefined ? undefined : setTimeout(wake, timeoutMs);
      for (const signal of signals) signal.addEventListener('abort', wake);
      this.#add(waiter);
    });
  }

  /** To be called when this process's writer made the records below `next` durable: wakes without a poll. */
  advanced(topic: string, partition: number, next: number): void {
    this.#reader.advance(topic, partition, next);
    for (const waiter of this.#waiters.get(`${topic}/${partition}`) ?? [])
      if (waiter.offset < next) waiter.wake();
  }

  close(): void {
    this.#wakeAll();
    clearTimeout(this.#timer);
  }

  #add(waiter: Waiter): void {
    const name = `${waiter.topic}/${waiter.partition}`;
    const others = this.#waiters.get(name);
    if (others) others.add(waiter);
    else this.#waiters.set(name, new Set([waiter]));
    this.#timer ??= setTimeout(() => this.#poll(), POLL_MS);
  }

  #remove(waiter: Waiter): void {
    const name = `${waiter.topic}/${waiter.partition}`;
    const waiters = this.#waiters.get(name);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#waiters.delete(name);
  }

  #poll(): void {
    this.#timer = undefined;
    if (this.#waiters.size === 0) return;
    try {
      this.#reader.refresh();
      // Any call of the reader may have found the change since the last poll, hence the counter.
      if (this.#reader.changes !== this.#seenChanges) this.#wakeReached();
    } catch {
      // The read that follows a wake meets the same error and reports it to its caller.
      this.#wakeAll();
    }
    const idle = performance.now() - this.#lastChange > IDLE_AFTER_MS;
    this.#timer = setTimeout(() => this.#poll(), idle ? IDLE_POLL_MS : POLL_MS);
  }

  #wakeReached(): void {
    this.#seenChanges = this.#reader.changes;
    this.#lastChange = performance.now();
    for (const waiters of [...this.#waiters.values()]) {
      for (const waiter of [...waiters]) {
        if (this.#reader.knownEnd(waiter.topic, waiter.partition) > waiter.offset) waiter.wake();
      }
    }
  }

  #wakeAll(): void {
    for (const waiters of [...this.#waiters.values()]) for (const waiter of [...waiters]) waiter.wake();
  }
}
