import { DestinationCalls, type DestinationCallsOptions } from './destination-calls.ts';
import { Targets, type TargetsDependencies } from './target.ts';

/** A destination is forgotten when it made no calls for this long, ms, and might; its circuit is closed by then. */
const FORGET_AFTER_MS = 10 * 60_000;
const SWEEP_MS = 60_000;

export interface PlacesDependencies extends TargetsDependencies, DestinationCallsOptions {
  /** Called when a destination has calls that had none before. */
  noteUse(): void;
}

interface Place {
  /** Of the destination; undefined when it is gone. */
  readonly version: number | undefined;
  readonly calls: DestinationCalls;
}

/** The destinations of this process that have calls, each with its opened secrets for as long as it is needed. */
export class Places {
  readonly #dependencies: PlacesDependencies;
  readonly #calls = new Map<string, Place>();
  #sweeping: NodeJS.Timeout | undefined;

  constructor(dependencies: PlacesDependencies) {
    this.#dependencies = dependencies;
  }

  /** Every destination that has calls here, in the order they came. */
  *[Symbol.iterator](): IterableIterator<DestinationCalls> {
    for (const { calls } of this.#calls.values()) yield calls;
  }

  get size(): number {
    return this.#calls.size;
  }

  /** What was learned of a destination, as that it asked not to be called, ends with a change: it may be another place. */
  callsTo(id: string): DestinationCalls {
    const version = this.#dependencies.current(id)?.version;
    const known = this.#calls.get(id);
    if (known !== undefined && known.version === version) return known.calls;
    const targets = new Targets(this.#dependencies, id);
    const calls = new DestinationCalls(this.#dependencies, targets);
    // What the one before has waiting it still calls for, or puts aside.
    this.#calls.set(id, { version, calls });
    this.#dependencies.noteUse();
    this.#sweepLater();
    return calls;
  }

  /** Forgets what is gone or was not used for long; never what has a call. */
  sweep(): void {
    for (const [id, { calls }] of this.#calls) {
      const idleMs = calls.idleMs();
      const gone = this.#dependencies.current(id) === undefined;
      if (idleMs > (gone ? 0 : FORGET_AFTER_MS)) this.#calls.delete(id);
    }
  }

  #sweepLater(): void {
    this.#sweeping ??= setTimeout(() => {
      this.#sweeping = undefined;
      this.sweep();
      if (this.#calls.size > 0) this.#sweepLater();
    }, SWEEP_MS).unref();
  }
}
