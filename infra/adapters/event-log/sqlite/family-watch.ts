import type { FamilyReader } from './family-reader.ts';

/** How often to look for what other threads and processes wrote, ms: while something happens, and when long idle. */
const POLL_MS = 5;
const IDLE_POLL_MS = 20;
const IDLE_AFTER_MS = 10_000;

interface Waiter {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly wake: () => void;
}

/** Wakes those who wait for records of one family. Looks at the files only while someone waits. */
export class FamilyWatch {
  readonly #reader: FamilyReader;
  readonly #waiters = new Map<string, Set<Waiter>>();
  #timer: NodeJS.Timeout | undefined;
  #lastChange = performance.now();
  #seenChanges = 0;

  constructor(reader: FamilyReader) {
    this.#reader = reader;
  }

  /** Resolves when the partition has a record at or behind `offset`, after `timeoutMs`, or when the signal fires. */
  until(
    topic: string,
    partition: number,
    offset: number,
    signals: readonly AbortSignal[],
    timeoutMs?: number,
  ) {
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

  /** This process's writer made records durable up to `next`. */
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
      this.#reader.look();
      // Anybody's look may have been the one that found the change.
      if (this.#reader.changes !== this.#seenChanges) this.#wakeReached();
    } catch {
      // Whoever waits meets the same error in the read that follows, and knows what to do about it.
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
