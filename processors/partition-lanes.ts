import {
  type Clock,
  DEFAULT_SLOW_AFTER_MS,
  type LaneOptions,
  type LaneTicket,
  LaneWindow,
  type LogEntry,
} from '@tributary/core';

/** The lane windows of one flow stage: a window of its own for each partition, as the log keeps them. */
export class PartitionLanes {
  readonly #elapsed: Clock;
  readonly #options: LaneOptions;
  readonly #windows = new Map<string, LaneWindow>();

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
   * Notes that work for `key` (a destination, a transformation) begins on an entry; call what it returns when the
   * work ended. Undefined: the key has its share, the entry belongs into the slow lane.
   */
  enter(entry: LogEntry, key: string): (() => void) | undefined {
    const window = this.#windowOf(entry);
    const bytes = Buffer.byteLength(entry.value);
    const now = this.#elapsed();
    if (window.decide(key, bytes, now) === 'slow') return undefined;
    const ticket: LaneTicket = window.begin(key, bytes, now);
    return () => window.end(ticket, this.#elapsed());
  }

  #windowOf({ position }: LogEntry): LaneWindow {
    const name = `${position.topic}/${position.partition}`;
    const known = this.#windows.get(name);
    if (known !== undefined) return known;
    const window = new LaneWindow(this.#options);
    this.#windows.set(name, window);
    return window;
  }
}
