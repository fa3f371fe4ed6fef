export interface LaneOptions {
  /** Bytes the window of the partition holds. */
  readonly windowBytes: number;
  /** The part of the window one key may fill. Default 1/8. */
  readonly share?: number;
  /** A key whose oldest work is older than this is slow. Default 500. */
  readonly slowAfterMs?: number;
  /** How long a key stays slow after work of it took longer than that. Default 30,000. */
  readonly slowForMs?: number;
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
export const DEFAULT_SLOW_FOR_MS = 30_000;

/**
 * What keys (destinations, transformations) do to one partition's window. One whose work takes long is `slow` and goes
 * to the slow lane, so that it delays only its like; one that is quick and busy waits for itself. Times are ms of a clock that never goes back.
 */
export class LaneWindow {
  readonly #loads = new Map<string, KeyLoad>();
  /** Until when a key is slow for what it did, by key; the one that ends first is first. */
  readonly #slowUntil = new Map<string, number>();
  readonly #slowForMs: number;
  readonly #shareBytes: number;
  readonly #slowAfterMs: number;

  constructor(options: LaneOptions) {
    this.#shareBytes = options.windowBytes * (options.share ?? DEFAULT_LANE_SHARE);
    this.#slowAfterMs = options.slowAfterMs ?? DEFAULT_SLOW_AFTER_MS;
    this.#slowForMs = options.slowForMs ?? DEFAULT_SLOW_FOR_MS;
  }

  /** Keys kept in mind for having been slow. */
  get remembered(): number {
    return this.#slowUntil.size;
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
    if (now - ticket.startedAt > this.#slowAfterMs) this.#remember(ticket.key, now);
    load.bytes -= ticket.bytes;
    if (load.tickets.size === 0) this.#loads.delete(ticket.key);
  }

  #remember(key: string, now: number): void {
    this.#slowUntil.delete(key);
    this.#slowUntil.set(key, now + this.#slowForMs);
    for (const [first, until] of this.#slowUntil) {
      if (now < until) return;
      this.#slowUntil.delete(first);
    }
  }

  #wasSlow(key: string, now: number): boolean {
    const until = this.#slowUntil.get(key);
    if (until === undefined) return false;
    if (now < until) return true;
    this.#slowUntil.delete(key);
    return false;
  }
}
