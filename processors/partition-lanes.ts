import {
  type Clock,
  DEFAULT_SLOW_AFTER_MS,
  type LaneOptions,
  type LaneTicket,
  LaneWindow,
  type LogEntry,
} from '@tributary/core';

const NOTHING_WAITS = { waitMs: 0, overloaded: false, waitingBytes: 0 };

/** Ends the work that was begun. */
type Leave = () => void;

/** What waits for a key beyond its lane, as far as that is known. */
export interface Queue {
  /** How long work that begins now would wait there, ms. */
  waitMs(): number;
  /** Whether it is this process that others wait for. */
  overloaded(): boolean;
}

interface Waiter {
  readonly bytes: number;
  readonly queue: Queue | undefined;
  readonly resolve: (leave: Leave | undefined) => void;
}

interface Waiters {
  readonly all: Waiter[];
  bytes: number;
}

interface Lane {
  readonly window: LaneWindow;
  /** Work that waits for its key to have room, by key, in the order it came. */
  readonly waiters: Map<string, Waiters>;
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
   * ended. A key that is quick waits for its own earlier work; one that is slow, that has a long `queue`, or that takes
   * up the room of others resolves to undefined: the entry belongs into the slow lane.
   */
  enter(entry: LogEntry, key: string, queue?: Queue): Promise<Leave | undefined> {
    const lane = this.#laneOf(entry);
    const bytes = Buffer.byteLength(entry.value);
    const waiting = lane.waiters.get(key);
    const decided = this.#decide(lane, key, bytes, waiting?.bytes ?? 0, queue);
    if (decided === 'slow') return Promise.resolve(undefined);
    if (decided === 'fast' && waiting === undefined)
      return Promise.resolve(this.#begin(lane, key, bytes, queue));
    return new Promise((resolve) => {
      const waiter = { bytes, queue, resolve };
      if (waiting === undefined) lane.waiters.set(key, { all: [waiter], bytes });
      else {
        waiting.all.push(waiter);
        waiting.bytes += bytes;
      }
    });
  }

  /**
   * As `enter`, for a lane that has no slower one: never waits, and resolves to undefined only for a key that takes up
   * the room of others.
   */
  enterAtOnce(entry: LogEntry, key: string): Leave | undefined {
    const lane = this.#laneOf(entry);
    const bytes = Buffer.byteLength(entry.value);
    const decided = lane.window.decide(key, bytes, this.#elapsed(), NOTHING_WAITS);
    return decided === 'slow' ? undefined : this.#begin(lane, key, bytes, undefined);
  }

  #decide(lane: Lane, key: string, bytes: number, waitingBytes: number, queue: Queue | undefined) {
    const now = this.#elapsed();
    if (queue === undefined) return lane.window.decide(key, bytes, now);
    const crowd = { waitMs: queue.waitMs(), overloaded: queue.overloaded(), waitingBytes };
    return lane.window.decide(key, bytes, now, crowd);
  }

  #begin(lane: Lane, key: string, bytes: number, queue: Queue | undefined): Leave {
    const ticket: LaneTicket = lane.window.begin(key, bytes, this.#elapsed());
    return () => {
      lane.window.end(ticket, this.#elapsed(), queue?.overloaded());
      this.#admit(lane, key);
    };
  }

  #admit(lane: Lane, key: string): void {
    const waiters = lane.waiters.get(key);
    if (waiters === undefined) return;
    let admitted = 0;
    for (const { bytes, queue, resolve } of waiters.all) {
      const decided = this.#decide(lane, key, bytes, 0, queue);
      if (decided === 'wait') break;
      admitted += 1;
      waiters.bytes -= bytes;
      resolve(decided === 'slow' ? undefined : this.#begin(lane, key, bytes, queue));
    }
    if (admitted === waiters.all.length) lane.waiters.delete(key);
    else waiters.all.splice(0, admitted);
  }

  #laneOf({ position }: LogEntry): Lane {
    const name = `${position.topic}/${position.partition}`;
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    const lane = { window: new LaneWindow(this.#options), waiters: new Map<string, Waiters>() };
    this.#lanes.set(name, lane);
    return lane;
  }
}
