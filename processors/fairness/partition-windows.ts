import type { Clock, LogEntry } from '@tributary/core';

/**
 * Once a key that is alone in its partition has enough work under way for so long, ms, further records are read in search of
 * other keys. Before that they would fill the window and only wait.
 */
const LOOK_PAST_MS = 100;

interface WindowOptions {
  /** Bytes the window of a partition holds. */
  readonly windowBytes: number;
  /** Share of the window that one key may fill, however many others there are. */
  readonly share: number;
  /** A key may hold so many times an even part of the window where fewer keys share it. */
  readonly evenParts: number;
  /** How long a key counts as present after an entry of it, ms. */
  readonly seenMs: number;
}

export const DEFAULT_WINDOW: Pick<WindowOptions, 'share' | 'evenParts' | 'seenMs'> = {
  share: 1 / 8,
  evenParts: 3,
  seenMs: 5_000,
};

/** The window of one partition. */
interface FairShareWindow {
  /** Bytes of the work under way, by key. */
  readonly held: Map<string, number>;
  /** Keys seen in the current period of `seenMs`, and their number in the period before. */
  readonly seen: Set<string>;
  seenBefore: number;
  seenSince: number;
  /** Since when the only key present has enough under way. */
  enoughSince: number | undefined;
}

/**
 * Shares the windows of a flow stage, one for each partition, between keys (destinations): none takes up the room of the others.
 * Times are ms of a monotonic clock.
 */
export class PartitionWindows {
  readonly #elapsed: Clock;
  readonly #options: WindowOptions;
  readonly #windows = new Map<string, FairShareWindow[]>();

  constructor(elapsed: Clock, options: Partial<WindowOptions> & Pick<WindowOptions, 'windowBytes'>) {
    this.#elapsed = elapsed;
    this.#options = { ...DEFAULT_WINDOW, ...options };
  }

  /**
   * Begins work for `key` on an entry whose value has so many bytes; returns what ends it, once. Undefined where the key takes
   * up the room of others. A key without work under way gets room for one piece of any size: its large events would never be
   * tried otherwise.
   */
  tryEnter({ position }: LogEntry, key: string, bytes: number): (() => void) | undefined {
    const window = this.#windowOf(position.topic, position.partition);
    this.#see(window, key);
    const { held } = window;
    const before = held.get(key) ?? 0;
    if (before > 0 && before + bytes > this.#mostBytes(window)) return undefined;
    held.set(key, before + bytes);
    return () => {
      const left = (held.get(key) ?? 0) - bytes;
      if (left > 0) held.set(key, left);
      else held.delete(key);
    };
  }

  /**
   * Backpressure, see `FlowStage.canAccept`: false while one key alone is present and has two shares of the window under way
   * that end soon. Other keys that are behind lose next to nothing, and the backlog of one key does not keep a whole window in
   * memory, with which a delivery costs about a quarter more processor time.
   */
  canAccept(topic: string, partition: number): boolean {
    const window = this.#windows.get(topic)?.[partition];
    if (window === undefined || keysSeen(window) > 1) return true;
    const [held = 0] = window.held.values();
    // Hysteresis: half a share is to be done before more is taken, instead of one entry at a time.
    const shares = window.enoughSince === undefined ? 2 : 1.5;
    if (held < this.#options.windowBytes * this.#options.share * shares) {
      window.enoughSince = undefined;
      return true;
    }
    const now = this.#elapsed();
    window.enoughSince ??= now;
    return now - window.enoughSince >= LOOK_PAST_MS;
  }

  #windowOf(topic: string, partition: number): FairShareWindow {
    const known = this.#windows.get(topic)?.[partition];
    if (known !== undefined) return known;
    const window: FairShareWindow = {
      held: new Map(),
      seen: new Set(),
      seenBefore: 0,
      seenSince: Number.NEGATIVE_INFINITY,
      enoughSince: undefined,
    };
    const windows = this.#windows.get(topic) ?? [];
    windows[partition] = window;
    this.#windows.set(topic, windows);
    return window;
  }

  /** Bytes that one key may hold. */
  #mostBytes(window: FairShareWindow): number {
    const { windowBytes, share, evenParts } = this.#options;
    return windowBytes * Math.max(share, evenParts / keysSeen(window));
  }

  #see(window: FairShareWindow, key: string): void {
    const { seenMs } = this.#options;
    const now = this.#elapsed();
    if (now - window.seenSince >= seenMs) {
      window.seenBefore = now - window.seenSince >= 2 * seenMs ? 0 : window.seen.size;
      window.seen.clear();
      window.seenSince = now;
    }
    window.seen.add(key);
  }
}

/** Number of keys seen lately. */
function keysSeen({ seen, seenBefore }: FairShareWindow): number {
  return Math.max(seen.size, seenBefore);
}
