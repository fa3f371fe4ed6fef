import {
  type Clock,
  DEFAULT_SLOW_AFTER_MS,
  type LaneOptions,
  type LaneTicket,
  LaneWindow,
  type LogEntry,
} from '@tributary/core';
import { WaitingLine } from './waiting-line.ts';

/** Who waits for a quick key has so many times the patience of work itself: a burst is soon over. */
const WAITING_PATIENCE = 10;

/** How often it is looked whose patience is over, ms: it may last this much longer. */
const CHECK_MS = 25;

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
  /** When it came, ms. */
  readonly since: number;
  readonly queue: Queue | undefined;
  readonly resolve: (leave: Leave | undefined) => void;
}

interface Waiters {
  readonly line: WaitingLine<Waiter>;
  bytes: number;
  /** When the patience of all who came before began anew, ms. */
  patientSince: number;
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
  #checking: NodeJS.Timeout | undefined;

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
   * ended. A key that is quick waits for its own earlier work, and with a `queue` no longer than work may take; one that is
   * slow or takes up the room of others resolves to undefined: the entry belongs into the slow lane.
   */
  enter(entry: LogEntry, key: string, queue?: Queue): Promise<Leave | undefined> {
    const lane = this.#laneOf(entry);
    const bytes = Buffer.byteLength(entry.value);
    const waiting = lane.waiters.get(key);
    const decided = this.#decide(lane, key, bytes, waiting?.bytes ?? 0, queue);
    if (decided === 'slow') return Promise.resolve(undefined);
    if (decided === 'fast' && waiting === undefined)
      return Promise.resolve(this.#begin(lane, key, bytes, queue));
    return this.#wait(lane, key, bytes, queue);
  }

  #wait(lane: Lane, key: string, bytes: number, queue: Queue | undefined): Promise<Leave | undefined> {
    const waiters = lane.waiters.get(key) ?? {
      line: new WaitingLine(),
      bytes: 0,
      patientSince: Number.NEGATIVE_INFINITY,
    };
    lane.waiters.set(key, waiters);
    const since = this.#elapsed();
    if (queue !== undefined) this.#checkSoon();
    return new Promise((resolve) => {
      waiters.line.join({ bytes, since, queue, resolve });
      waiters.bytes += bytes;
    });
  }

  /** One timer for all that wait: thousands do, where a destination has a long backlog. */
  #checkSoon(): void {
    this.#checking ??= setTimeout(() => {
      this.#checking = undefined;
      let someWait = false;
      for (const lane of this.#lanes.values()) someWait = this.#giveUpOld(lane) || someWait;
      if (someWait) this.#checkSoon();
    }, CHECK_MS).unref();
  }

  /** Who waits too long gives up, but never while it is this process that others wait for. Whether some wait on. */
  #giveUpOld({ waiters: byKey }: Lane): boolean {
    let someWait = false;
    const now = this.#elapsed();
    for (const [key, waiters] of byKey) {
      const { line } = waiters;
      // Who is behind came later: most looks end at the first, however many wait.
      for (let first = line.first; first !== undefined; first = line.first) {
        const { bytes, since, queue, resolve } = first;
        const waitedMs = now - Math.max(since, waiters.patientSince);
        if (queue === undefined || waitedMs < this.slowAfterMs * WAITING_PATIENCE) break;
        if (queue.overloaded()) {
          waiters.patientSince = now;
          break;
        }
        line.shift();
        waiters.bytes -= bytes;
        resolve(undefined);
      }
      if (line.size === 0) byKey.delete(key);
      else someWait = true;
    }
    return someWait;
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
    const { line } = waiters;
    for (let waiter = line.first; waiter !== undefined; waiter = line.first) {
      const { bytes, queue, resolve } = waiter;
      const decided = this.#decide(lane, key, bytes, 0, queue);
      if (decided === 'wait') break;
      line.shift();
      waiters.bytes -= bytes;
      resolve(decided === 'slow' ? undefined : this.#begin(lane, key, bytes, queue));
    }
    if (line.size === 0) lane.waiters.delete(key);
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
