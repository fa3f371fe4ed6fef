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
}

/** Work under way; hand it back to `end`. */
export interface LaneTicket {
  readonly key: string;
  readonly bytes: number;
  readonly startedAt: number;
}

interface KeyLoad {
  bytes: number;
  /** In the order they began, so the first is the oldest. */
  readonly tickets: Set<LaneTicket>;
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
  readonly #slowForMs: number;
  readonly #slowForAtMostMs: number;
  readonly #shareBytes: number;
  readonly #slowAfterMs: number;

  constructor(options: LaneOptions) {
    this.#shareBytes = options.windowBytes * (options.share ?? DEFAULT_LANE_SHARE);
    this.#slowAfterMs = options.slowAfterMs ?? DEFAULT_SLOW_AFTER_MS;
    this.#slowForMs = options.slowForMs ?? DEFAULT_SLOW_FOR_MS;
    this.#slowForAtMostMs = options.slowForAtMostMs ?? DEFAULT_SLOW_FOR_AT_MOST_MS;
  }

  /** Keys kept in mind for having been slow. */
  get remembered(): number {
    return this.#slowness.size;
  }

  /**
   * Where work of this size goes now. A key that was slow a while ago stays so for some time: each try of it may hold
   * up the window's commits. Any other key with nothing under way is `fast`, however large the one piece: otherwise
   * its large events would never be tried. `wait`: it has its share, and is quick so far.
   */
  decide(key: string, bytes: number, now: number): 'fast' | 'slow' | 'wait' {
    if (this.#wasSlow(key, now)) return 'slow';
    const load = this.#loads.get(key);
    if (load === undefined) return 'fast';
    for (const oldest of load.tickets) {
      if (now - oldest.startedAt > this.#slowAfterMs) return 'slow';
      break;
    }
    return load.bytes + bytes > this.#shareBytes ? 'wait' : 'fast';
  }

  begin(key: string, bytes: number, now: number): LaneTicket {
    const ticket = { key, bytes, startedAt: now };
    const load = this.#loads.get(key) ?? { bytes: 0, tickets: new Set() };
    load.bytes += bytes;
    load.tickets.add(ticket);
    this.#loads.set(key, load);
    return ticket;
  }

  /** Idempotent per ticket. A key without work is forgotten, unless it was slow. */
  end(ticket: LaneTicket, now: number): void {
    const load = this.#loads.get(ticket.key);
    if (load === undefined || !load.tickets.delete(ticket)) return;
    if (now - ticket.startedAt > this.#slowAfterMs) this.#remember(ticket.key, ticket.startedAt, now);
    load.bytes -= ticket.bytes;
    if (load.tickets.size === 0) this.#loads.delete(ticket.key);
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
