import type { Clock, LogEntry } from '@tributary/core';
import Denque from 'denque';
import {
  DEFAULT_WINDOW,
  FairShareWindow,
  type QueuePressure,
  type WindowOptions,
  type WindowWork,
} from './fair-share-window.ts';

/** An entry of a quick key may wait so many times as long as work may take: a burst is soon over. */
export const WAIT_FACTOR = 10;

/** Interval at which waits are checked, ms: each may last this much longer. */
const CHECK_MS = 25;

/**
 * Once the work of a key that is alone in its partition waits for so long, ms, further records are read in search of other
 * keys. Before that they would fill the window and only wait.
 */
const LOOK_PAST_MS = 100;

/** Pressure of work without a slow queue: it is rejected only for taking up the room of others. */
const NO_PRESSURE: QueuePressure = { waitMs: () => 0, isSlow: () => false };

/** Permission to work on an entry, until `release`. */
export interface Permit {
  /** Idempotent. Admits entries of the same key that wait. */
  release(): void;
}

/** An entry whose key has no room. */
interface Waiter {
  readonly bytes: number;
  readonly since: number;
  readonly pressure: QueuePressure | undefined;
  /** Undefined: rejected. */
  readonly resolve: (permit: Permit | undefined) => void;
}

/** Waiters of one key, in the order of their entries. */
interface Waiters {
  readonly line: Denque<Waiter>;
  bytes: number;
}

interface Partition {
  readonly window: FairShareWindow;
  readonly waiters: Map<string, Waiters>;
  /** Whether a full share of the only key present waits already, so that no more entries are read. */
  hasEnough: boolean;
}

/** The fair-share windows of one flow stage: one for each partition, as the log keeps them. */
export class PartitionWindows {
  readonly #elapsed: Clock;
  readonly #options: WindowOptions;
  readonly #partitions = new Map<string, Partition[]>();
  #checking: NodeJS.Timeout | undefined;

  /** `elapsed`: ms of a monotonic clock, such as a `waitClock`. */
  constructor(elapsed: Clock, options: Partial<WindowOptions> & Pick<WindowOptions, 'windowBytes'>) {
    this.#elapsed = elapsed;
    this.#options = { ...DEFAULT_WINDOW, ...options };
  }

  /** How long work may take before its key is slow, ms. */
  get slowAfterMs(): number {
    return this.#options.slowAfterMs;
  }

  /**
   * Resolves to a permit once work for `key` (a destination, a transformation) may begin on an entry whose value has so
   * many bytes; to undefined where the entry belongs into the slow queue. An entry of a quick key waits for earlier work
   * of its key, and with a `pressure` for a bounded time.
   */
  enter(entry: LogEntry, key: string, bytes: number, pressure?: QueuePressure): Promise<Permit | undefined> {
    const partition = this.#partitionOf(entry);
    const waiters = partition.waiters.get(key);
    const now = this.#elapsed();
    const decision = partition.window.decide(key, bytes, now, pressure, waiters?.bytes);
    if (decision === 'slow') return Promise.resolve(undefined);
    if (decision === 'admit' && waiters === undefined)
      return Promise.resolve(this.#permit(partition, key, bytes, now, pressure));
    return new Promise((resolve) => {
      this.#wait(partition, key, { bytes, since: now, pressure, resolve });
    });
  }

  /** As `enter`, for the slow queue itself: never waits; undefined only for a key that takes the room of others. */
  tryEnter(entry: LogEntry, key: string, bytes: number): Permit | undefined {
    const partition = this.#partitionOf(entry);
    const now = this.#elapsed();
    const decision = partition.window.decide(key, bytes, now, NO_PRESSURE);
    return decision === 'slow' ? undefined : this.#permit(partition, key, bytes, now, NO_PRESSURE);
  }

  /**
   * Backpressure, see `FlowStage.canAccept`: false while one key alone is present, a share of the window waits, and each
   * waiter is admitted soon. Other keys that are behind lose next to nothing, and the backlog of one key does not keep a
   * whole window in memory.
   */
  canAccept(topic: string, partition: number): boolean {
    const known = this.#partitions.get(topic)?.[partition];
    if (known === undefined) return true;
    known.hasEnough = this.#hasEnough(known);
    return !known.hasEnough;
  }

  #hasEnough({ window, waiters: byKey, hasEnough }: Partition): boolean {
    const [waiters] = byKey.values();
    const first = waiters?.line.peekFront();
    if (waiters === undefined || first === undefined || window.keysSeen > 1) return false;
    // Hysteresis: half of it is to be done before more is taken, instead of one entry at a time.
    const enoughBytes = hasEnough ? window.shareBytes / 2 : window.shareBytes;
    return waiters.bytes >= enoughBytes && this.#elapsed() - first.since < LOOK_PAST_MS;
  }

  #wait({ waiters: byKey }: Partition, key: string, waiter: Waiter): void {
    const known = byKey.get(key);
    const waiters = known ?? { line: new Denque<Waiter>(), bytes: 0 };
    if (known === undefined) byKey.set(key, waiters);
    if (waiter.pressure !== undefined) this.#checkSoon();
    waiters.line.push(waiter);
    waiters.bytes += waiter.bytes;
  }

  #permit(
    partition: Partition,
    key: string,
    bytes: number,
    now: number,
    pressure: QueuePressure | undefined,
  ): Permit {
    const work = partition.window.begin(key, bytes, now);
    return { release: () => this.#release(partition, work, pressure) };
  }

  #release(partition: Partition, work: WindowWork, pressure: QueuePressure | undefined): void {
    const now = this.#elapsed();
    partition.window.end(work, now, pressure);
    this.#admit(partition, work.key, now);
  }

  #admit(partition: Partition, key: string, now: number): void {
    const waiters = partition.waiters.get(key);
    if (waiters === undefined) return;
    const { line } = waiters;
    for (let waiter = line.peekFront(); waiter !== undefined; waiter = line.peekFront()) {
      const { bytes, pressure, resolve } = waiter;
      const decision = partition.window.decide(key, bytes, now, pressure);
      if (decision === 'wait') break;
      line.shift();
      waiters.bytes -= bytes;
      resolve(decision === 'slow' ? undefined : this.#permit(partition, key, bytes, now, pressure));
    }
    if (line.length === 0) partition.waiters.delete(key);
  }

  /** One timer for all waiters: the backlog of a destination has thousands. */
  #checkSoon(): void {
    this.#checking ??= setTimeout(() => {
      this.#checking = undefined;
      let someWait = false;
      for (const partitions of this.#partitions.values())
        for (const partition of partitions)
          if (partition !== undefined) someWait = this.#rejectOld(partition) || someWait;
      if (someWait) this.#checkSoon();
    }, CHECK_MS).unref();
  }

  /** Rejects waiters that waited too long. Returns whether some still wait. */
  #rejectOld({ waiters: byKey }: Partition): boolean {
    let someWait = false;
    const now = this.#elapsed();
    for (const [key, waiters] of byKey) {
      const { line } = waiters;
      // Later waiters came later: most checks end at the first.
      for (let first = line.peekFront(); first !== undefined; first = line.peekFront()) {
        const { bytes, since, pressure, resolve } = first;
        if (pressure === undefined || now - since < this.slowAfterMs * WAIT_FACTOR) break;
        line.shift();
        waiters.bytes -= bytes;
        resolve(undefined);
      }
      if (line.length === 0) byKey.delete(key);
      else someWait = true;
    }
    return someWait;
  }

  #partitionOf({ position }: LogEntry): Partition {
    const { topic, partition } = position;
    const known = this.#partitions.get(topic)?.[partition];
    if (known !== undefined) return known;
    const made: Partition = {
      window: new FairShareWindow(this.#options),
      waiters: new Map(),
      hasEnough: false,
    };
    const partitions = this.#partitions.get(topic) ?? [];
    partitions[partition] = made;
    this.#partitions.set(topic, partitions);
    return made;
  }
}
