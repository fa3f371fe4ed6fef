export interface WindowOptions {
  /** Bytes the window of the partition holds. */
  readonly windowBytes: number;
  /** Share of the window that one key may fill. */
  readonly share: number;
  /** A key whose oldest work is older than this is slow, ms. */
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
  /** Whether this process is saturated. Then waits are not the key's fault. */
  saturated(): boolean;
}

/** While the process is saturated, work may take so many times as long before its key is slow. */
export const SATURATED_FACTOR = 4;

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
interface Slowness {
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
   * - `slow`: to the slow queue. The key was slow a while ago, as each try may delay the window's commits; or its oldest
   *   work takes too long; or, with a queue pressure, it takes up the room of other keys (`waitingBytes` are those of
   *   this key in the window that have not begun).
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
    if (this.#wasSlow(key, now)) return 'slow';
    const load = this.#loads.get(key);
    if (load === undefined) return 'admit';
    if (this.#tookLong(load.oldest, now, pressure)) return 'slow';
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
    if (this.#tookLong(work, now, pressure)) this.#remember(work.key, work.startedAt, now);
    load.bytes -= work.bytes;
    if (load.underWay.size === 0) this.#loads.delete(work.key);
    else if (load.oldest === work) load.oldest = load.order.next().value ?? work;
  }

  #tookLong({ startedAt }: WindowWork, now: number, pressure: QueuePressure | undefined): boolean {
    const { slowAfterMs } = this.#options;
    const tookMs = now - startedAt;
    if (tookMs <= slowAfterMs) return false;
    return tookMs > slowAfterMs * (pressure?.saturated() === true ? SATURATED_FACTOR : 1);
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

  /**
   * A single hiccup, also one of this process, is forgiven soon; a key that is slow at each new try is tried ever less
   * often. Work that began before the key was found slow adds nothing.
   */
  #remember(key: string, startedAt: number, now: number): void {
    const { slowForMs, slowForAtMostMs } = this.#options;
    const known = this.#slowness.get(key);
    if (known !== undefined && startedAt < known.until - known.forMs) return;
    const again = known !== undefined && !isForgotten(known, now);
    const forMs = again ? Math.min(known.forMs * 2, slowForAtMostMs) : slowForMs;
    for (const [other, slowness] of this.#slowness)
      if (isForgotten(slowness, now)) this.#slowness.delete(other);
    this.#slowness.set(key, { until: now + forMs, forMs });
  }

  #wasSlow(key: string, now: number): boolean {
    const slowness = this.#slowness.get(key);
    return slowness !== undefined && now < slowness.until;
  }
}

/** The key was quick for as long as it had been treated as slow. */
function isForgotten({ until, forMs }: Slowness, now: number): boolean {
  return now >= until + forMs;
}
