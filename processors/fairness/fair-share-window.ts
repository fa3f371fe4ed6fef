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
