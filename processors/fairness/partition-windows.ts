import type { Clock, LogEntry } from '@tributary/core';
import Denque from 'denque';

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
interface Permit {
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

export interface WindowOptions {
  /** Bytes the window of the partition holds. */
  readonly windowBytes: number;
  /** Share of the window that one key may fill. */
  readonly share: number;
  /** A key whose oldest work is older than this is slow, ms, where no queue pressure tells. */
  readonly slowAfterMs: number;
  /**
   * How long a key stays slow after work of it took longer than that, ms: at first, and at most. Doubles each time it is
   * slow again soon.
   */
  readonly slowForMs: number;
  readonly slowForAtMostMs: number;
  /** With a queue pressure a key may hold so many times an even part of the window, or its share. */
  readonly evenParts: number;
  /** How long a key counts as present after an entry of it, ms. */
  readonly seenMs: number;
}

export const DEFAULT_WINDOW: Omit<WindowOptions, 'windowBytes'> = {
  share: 1 / 8,
  slowAfterMs: 500,
  slowForMs: 1_000,
  slowForAtMostMs: 30_000,
  evenParts: 3,
  seenMs: 5_000,
};

/** The queue behind the window that work of a key joins; read only where it decides. */
export interface QueuePressure {
  /** How long work that begins now would wait in that queue, ms. */
  waitMs(): number;
  /** Whether the key is slow, by what its requests take. */
  isSlow(): boolean;
}

/** Work under way, from `begin` to `end`. */
export interface WindowWork {
  readonly key: string;
  readonly bytes: number;
  readonly startedAt: number;
}

interface KeyLoad {
  bytes: number;
  readonly underWay: Set<WindowWork>;
  /** `underWay` in order. A new iterator would step over all deleted elements of the set each time. */
  readonly order: SetIterator<WindowWork>;
  oldest: WindowWork;
}

/** When a key was slow last. */
export interface Slowness {
  readonly until: number;
  readonly forMs: number;
}

/**
 * Shares one partition's window between keys (destinations, transformations). A key whose work takes long is `slow`: its
 * entries go to the slow queue, so that it delays only other slow keys. A key that is quick and busy waits for its own
 * earlier work. Times are ms of a monotonic clock.
 */
export class FairShareWindow {
  readonly #loads = new Map<string, KeyLoad>();
  readonly #slowness = new Map<string, Slowness>();
  /** Keys seen in the current period of `seenMs`, and their number in the period before. */
  readonly #seen = new Set<string>();
  #seenBefore = 0;
  #seenSince = Number.NEGATIVE_INFINITY;
  readonly #options: WindowOptions;

  constructor(options: WindowOptions) {
    this.#options = options;
  }

  /** The part of the window that one key may fill. */
  get shareBytes(): number {
    return this.#options.windowBytes * this.#options.share;
  }

  /** Number of keys seen lately. */
  get keysSeen(): number {
    return Math.max(this.#seen.size, this.#seenBefore);
  }

  /** Number of keys whose slowness is remembered. */
  get remembered(): number {
    return this.#slowness.size;
  }

  /**
   * Decides where work of this size goes now.
   *
   * - `slow`: to the slow queue. The key is slow by its queue pressure, or it takes up the room of other keys (`waitingBytes`
   *   are those of this key in the window that have not begun). Without a queue pressure: its oldest work takes too long, or
   *   it was slow a while ago, as each try may delay the window's commits.
   * - `wait`: for earlier work of its key, which fills its share, or for the queue behind the window.
   * - `admit`: at once. Always so for a key without work under way, however large the one piece: its large events
   *   would never be tried otherwise.
   */
  decide(
    key: string,
    bytes: number,
    now: number,
    pressure?: QueuePressure,
    waitingBytes = 0,
  ): 'admit' | 'slow' | 'wait' {
    this.#see(key, now);
    const load = this.#loads.get(key);
    if (pressure?.isSlow() ?? this.#isSlow(key, load, now)) return 'slow';
    if (load === undefined) return 'admit';
    if (pressure !== undefined && load.bytes + waitingBytes + bytes > this.#mostBytes()) return 'slow';
    if (load.bytes + bytes > this.shareBytes) return 'wait';
    return pressure !== undefined && pressure.waitMs() > this.#options.slowAfterMs / 2 ? 'wait' : 'admit';
  }

  begin(key: string, bytes: number, now: number): WindowWork {
    const work = { key, bytes, startedAt: now };
    const load = this.#loads.get(key);
    if (load === undefined) {
      const underWay = new Set([work]);
      const order = underWay.values();
      order.next();
      this.#loads.set(key, { bytes, underWay, order, oldest: work });
    } else {
      load.bytes += bytes;
      load.underWay.add(work);
    }
    return work;
  }

  /** Idempotent. A key without work is forgotten, unless it was slow. */
  end(work: WindowWork, now: number, pressure?: QueuePressure): void {
    const load = this.#loads.get(work.key);
    if (load === undefined || !load.underWay.delete(work)) return;
    if (pressure === undefined && this.#tookLong(work, now)) this.#remember(work.key, work.startedAt, now);
    load.bytes -= work.bytes;
    if (load.underWay.size === 0) this.#loads.delete(work.key);
    else if (load.oldest === work) load.oldest = load.order.next().value ?? work;
  }

  #isSlow(key: string, load: KeyLoad | undefined, now: number): boolean {
    const slowness = this.#slowness.get(key);
    if (slowness !== undefined && now < slowness.until) return true;
    return load !== undefined && this.#tookLong(load.oldest, now);
  }

  #tookLong({ startedAt }: WindowWork, now: number): boolean {
    return now - startedAt > this.#options.slowAfterMs;
  }

  /** Bytes that one key may hold: its share, or some times an even part where fewer keys share the window. */
  #mostBytes(): number {
    const { windowBytes, evenParts } = this.#options;
    return Math.max(this.shareBytes, (windowBytes * evenParts) / this.keysSeen);
  }

  #see(key: string, now: number): void {
    const { seenMs } = this.#options;
    if (now - this.#seenSince >= seenMs) {
      this.#seenBefore = now - this.#seenSince >= 2 * seenMs ? 0 : this.#seen.size;
      this.#seen.clear();
      this.#seenSince = now;
    }
    this.#seen.add(key);
  }

  #remember(key: string, startedAt: number, now: number): void {
    const slowness = slownessAfter(this.#slowness.get(key), startedAt, now, this.#options);
    for (const [other, known] of this.#slowness) if (isForgotten(known, now)) this.#slowness.delete(other);
    this.#slowness.set(key, slowness);
  }
}

/**
 * The slowness of a key after slow work. A single hiccup is forgiven soon; a key that is slow at each new try is tried ever less
 * often. Work that began before the key was found slow adds nothing.
 */
export function slownessAfter(
  known: Slowness | undefined,
  startedAt: number,
  now: number,
  { slowForMs, slowForAtMostMs }: Pick<WindowOptions, 'slowForMs' | 'slowForAtMostMs'> = DEFAULT_WINDOW,
): Slowness {
  if (known !== undefined && startedAt < known.until - known.forMs) return known;
  const isAgain = known !== undefined && !isForgotten(known, now);
  const forMs = isAgain ? Math.min(known.forMs * 2, slowForAtMostMs) : slowForMs;
  return { until: now + forMs, forMs };
}

/** The key was quick for as long as it had been treated as slow. */
function isForgotten({ until, forMs }: Slowness, now: number): boolean {
  return now >= until + forMs;
}
