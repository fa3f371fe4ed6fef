import {
  type Clock,
  DEFAULT_SLOW_AFTER_MS,
  type LaneOptions,
  type LaneTicket,
  LaneWindow,
  type LogEntry,
} from '@tributary/core';

/** Ends the work that was begun. */
type Leave = () => void;

interface Waiter {
  readonly bytes: number;
  readonly resolve: (leave: Leave | undefined) => void;
}

interface Lane {
  readonly window: LaneWindow;
  /** Work that waits for its key to have room, by key, in the order it came. */
  readonly waiters: Map<string, Waiter[]>;
}

/** The lane windows of one flow stage: a window of its own for each partition, as the log keeps them. */
export class PartitionLanes {
  readonly #elapsed: Clock;
  readonly #options: LaneOptions;
  readonly #lanes = new Map<string, Lane>();

  /** `elapsed`: ms that never go back. */
  constructor(elapsed: Clock, options: LaneOptions) {
    this.#elapsed = elapsed;
    this.#options = options;
  }

  /** How long work may take before its key is slow, ms. */
  get slowAfterMs(): number {
    return this.#options.slowAfterMs ?? DEFAULT_SLOW_AFTER_MS;
  }

  /**
   * Resolves when work for `key` (a destination, a transformation) may begin on an entry, with what to call when it
   * ended. A key that is quick waits for its own earlier work; one that is slow resolves to undefined: the entry
   * belongs into the slow lane.
   */
  enter(entry: LogEntry, key: string): Promise<Leave | undefined> {
    const lane = this.#laneOf(entry);
    const bytes = Buffer.byteLength(entry.value);
    const waiting = lane.waiters.get(key);
    if (waiting === undefined) {
      const decided = lane.window.decide(key, bytes, this.#elapsed());
      if (decided === 'slow') return Promise.resolve(undefined);
      if (decided === 'fast') return Promise.resolve(this.#begin(lane, key, bytes));
    }
    return new Promise((resolve) => {
      const waiter = { bytes, resolve };
      if (waiting === undefined) lane.waiters.set(key, [waiter]);
      else waiting.push(waiter);
    });
  }

  #begin(lane: Lane, key: string, bytes: number): Leave {
    const ticket: LaneTicket = lane.window.begin(key, bytes, this.#elapsed());
    return () => {
      lane.window.end(ticket, this.#elapsed());
      this.#admit(lane, key);
    };
  }

  #admit(lane: Lane, key: string): void {
    const waiters = lane.waiters.get(key);
    if (waiters === undefined) return;
    let admitted = 0;
    for (const { bytes, resolve } of waiters) {
      const decided = lane.window.decide(key, bytes, this.#elapsed());
      if (decided === 'wait') break;
      admitted += 1;
      resolve(decided === 'slow' ? undefined : this.#begin(lane, key, bytes));
    }
    if (admitted === waiters.length) lane.waiters.delete(key);
    else waiters.splice(0, admitted);
  }

  #laneOf({ position }: LogEntry): Lane {
    const name = `${position.topic}/${position.partition}`;
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    const lane = { window: new LaneWindow(this.#options), waiters: new Map<string, Waiter[]>() };
    this.#lanes.set(name, lane);
    return lane;
  }
}
