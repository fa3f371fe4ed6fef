export interface LaneOptions {
  /** Bytes the window of the partition holds. */
  readonly windowBytes: number;
  /** The part of the window one key may fill. Default 1/8. */
  readonly share?: number;
  /** A key whose oldest work is older than this is slow. Default 500. */
  readonly slowAfterMs?: number;
  /**
   * How long a key stays slow after work of it took longer than that: at first, and at most. Doubles each time it is
   * slow again soon. Default 1,000 and 30,000.
   */
  readonly slowForMs?: number;
  readonly slowForAtMostMs?: number;
  /** Where there is a crowd a key may hold so many times an even part of the window, or its share. Default 3. */
  readonly evenParts?: number;
  /** How long a key counts that came, ms. Default 5,000. */
  readonly seenMs?: number;
}

/** What waits for a key outside of the window, and whose fault that is; asked only where it decides. */
export interface Crowd {
  /** How long work that begins now would wait there, ms. */
  waitMs(): number;
  /** Whether it is the process that has more to do than it can: then waits are nobody else's fault. */
  overloaded(): boolean;
}

/** While the process is overloaded, work may take so many times as long before its key is slow. */
export const OVERLOAD_PATIENCE = 4;

export const DEFAULT_EVEN_PARTS = 3;
export const DEFAULT_SEEN_MS = 5_000;

/** Work under way; hand it back to `end`. */
export interface LaneTicket {
  readonly key: string;
  readonly bytes: number;
  readonly startedAt: number;
}

interface KeyLoad {
  bytes: number;
  readonly tickets: Set<LaneTicket>;
  /** Of the tickets in the order they began. Asking a set for its first would go over all that ended each time. */
  readonly order: SetIterator<LaneTicket>;
  oldest: LaneTicket;
}

export const DEFAULT_LANE_SHARE = 1 / 8;
export const DEFAULT_SLOW_AFTER_MS = 500;
export const DEFAULT_SLOW_FOR_MS = 1_000;
export const DEFAULT_SLOW_FOR_AT_MOST_MS = 30_000;

/** How a key was slow. */
interface Slowness {
  readonly until: number;
  readonly forMs: number;
}

/**
 * What keys (destinations, transformations) do to one partition's window. One whose work takes long is `slow` and goes
 * to the slow lane, so that it delays only its like; one that is quick and busy waits for itself. Times are ms of a clock that never goes back.
 */
export class LaneWindow {
  readonly #loads = new Map<string, KeyLoad>();
  /** By key, for as long as it counts. */
  readonly #slowness = new Map<string, Slowness>();
  /** Keys seen in the present stretch of time, and how many were in the one before. */
  readonly #seen = new Set<string>();
  #seenBefore = 0;
  #seenSince = Number.NEGATIVE_INFINITY;
  readonly #evenBytes: number;
  readonly #seenMs: number;
  readonly #slowForMs: number;
  readonly #slowForAtMostMs: number;
  readonly #shareBytes: number;
  readonly #slowAfterMs: number;

  constructor(options: LaneOptions) {
    this.#evenBytes = options.windowBytes * (options.evenParts ?? DEFAULT_EVEN_PARTS);
    this.#seenMs = options.seenMs ?? DEFAULT_SEEN_MS;
    this.#shareBytes = options.windowBytes * (options.share ?? DEFAULT_LANE_SHARE);
    this.#slowAfterMs = options.slowAfterMs ?? DEFAULT_SLOW_AFTER_MS;
    this.#slowForMs = options.slowForMs ?? DEFAULT_SLOW_FOR_MS;
    this.#slowForAtMostMs = options.slowForAtMostMs ?? DEFAULT_SLOW_FOR_AT_MOST_MS;
  }

  /** The part of the window one key may fill. */
  get shareBytes(): number {
    return this.#shareBytes;
  }

  /** How many keys came lately. */
  get keysSeen(): number {
    return Math.max(this.#seen.size, this.#seenBefore);
  }

  /** Keys kept in mind for having been slow. */
  get remembered(): number {
    return this.#slowness.size;
  }

  /**
   * Where work of this size goes now. A key that was slow a while ago stays so for some time: each try of it may hold
   * up the window's commits. Any other key with nothing under way is `fast`, however large the one piece: otherwise
   * its large events would never be tried. `wait`: it has its share, and is quick so far. Where there is a crowd, a key
   * waits too that work would wait for, and one that takes up the room of others is slow: `waitingBytes` are those of
   * this key in the window that have not begun.
   */
  decide(key: string, bytes: number, now: number, crowd?: Crowd, waitingBytes = 0): 'fast' | 'slow' | 'wait' {
    this.#see(key, now);
    if (this.#wasSlow(key, now)) return 'slow';
    const load = this.#loads.get(key);
    if (load === undefined) return 'fast';
    if (this.#tookLong(load.oldest, now, crowd)) return 'slow';
    if (crowd !== undefined && load.bytes + waitingBytes + bytes > this.#mostBytes()) return 'slow';
    if (load.bytes + bytes > this.#shareBytes) return 'wait';
    return crowd !== undefined && crowd.waitMs() > this.#slowAfterMs / 2 ? 'wait' : 'fast';
  }

  begin(key: string, bytes: number, now: number): LaneTicket {
    const ticket = { key, bytes, startedAt: now };
    this.admit(ticket);
    return ticket;
  }

  /** As `begin`, with a ticket of the caller's own. */
  admit(ticket: LaneTicket): void {
    const { key, bytes } = ticket;
    const load = this.#loads.get(key);
    if (load === undefined) {
      const tickets = new Set([ticket]);
      const order = tickets.values();
      order.next();
      this.#loads.set(key, { bytes, tickets, order, oldest: ticket });
    } else {
      load.bytes += bytes;
      load.tickets.add(ticket);
    }
  }

  /** Idempotent per ticket. A key without work is forgotten, unless it was slow. */
  end(ticket: LaneTicket, now: number, crowd?: Crowd): void {
    const load = this.#loads.get(ticket.key);
    if (load === undefined || !load.tickets.delete(ticket)) return;
    if (this.#tookLong(ticket, now, crowd)) this.#remember(ticket.key, ticket.startedAt, now);
    load.bytes -= ticket.bytes;
    if (load.tickets.size === 0) this.#loads.delete(ticket.key);
    else if (load.oldest === ticket) load.oldest = load.order.next().value ?? ticket;
  }

  #tookLong({ startedAt }: LaneTicket, now: number, crowd: Crowd | undefined): boolean {
    const tookMs = now - startedAt;
    if (tookMs <= this.#slowAfterMs) return false;
    return tookMs > this.#slowAfterMs * (crowd?.overloaded() === true ? OVERLOAD_PATIENCE : 1);
  }

  /** What one key may hold: its share, or some times an even part where fewer keys share the window. */
  #mostBytes(): number {
    return Math.max(this.#shareBytes, this.#evenBytes / this.keysSeen);
  }

  #see(key: string, now: number): void {
    if (now - this.#seenSince >= this.#seenMs) {
      this.#seenBefore = now - this.#seenSince >= 2 * this.#seenMs ? 0 : this.#seen.size;
      this.#seen.clear();
      this.#seenSince = now;
    }
    this.#seen.add(key);
  }

  /**
   * One hiccup, also one of this process, is soon forgiven; whoever is slow at each new try is tried ever less often.
   * What was begun before it was found slow says nothing new.
   */
  #remember(key: string, startedAt: number, now: number): void {
    const known = this.#slowness.get(key);
    if (known !== undefined && startedAt < known.until - known.forMs) return;
    const again = known !== undefined && !isForgotten(known, now);
    const forMs = again ? Math.min(known.forMs * 2, this.#slowForAtMostMs) : this.#slowForMs;
    for (const [other, slowness] of this.#slowness)
      if (isForgotten(slowness, now)) this.#slowness.delete(other);
    this.#slowness.set(key, { until: now + forMs, forMs });
  }

  #wasSlow(key: string, now: number): boolean {
    const slowness = this.#slowness.get(key);
    return slowness !== undefined && now < slowness.until;
  }
}

/** It was quick for as long as it was held for slow. */
function isForgotten({ until, forMs }: Slowness, now: number): boolean {
  return now >= until + forMs;
}
