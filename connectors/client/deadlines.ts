import { performance as thread } from 'node:perf_hooks';
import { Stopped, TimedOut } from '../failures.ts';

/** The part of `AbortSignal` that the connectors use. */
export interface AbortLike {
  readonly aborted: boolean;
  /** Undefined until it is aborted. */
  readonly reason: Error | undefined;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** The deadline of one call: a cheap signal. A real `AbortSignal` is costly and made only for drivers that need one. */
export class Deadline implements AbortLike {
  /** The caller's signal. */
  readonly outer: AbortSignal;
  /** By `performance.now()`. */
  dueAt: number;
  /** How often it was extended. */
  extensions = 0;
  /** How long the thread had been busy when it began or was extended, ms. */
  busyAt: number;
  #reason: Stopped | TimedOut | undefined;
  #controller: AbortController | undefined;
  #listeners: readonly (() => void)[] = NO_LISTENERS;

  constructor(outer: AbortSignal, dueAt: number, busyAt: number) {
    this.outer = outer;
    this.dueAt = dueAt;
    this.busyAt = busyAt;
  }

  get aborted(): boolean {
    return this.#reason !== undefined;
  }

  get reason(): Stopped | TimedOut | undefined {
    return this.#reason;
  }

  /** For drivers that take nothing else. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.aborted) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  throwIfAborted(): void {
    if (this.#reason !== undefined) throw this.#reason;
  }

  /** Calls `listener` once; never where it is aborted already. */
  addEventListener(_: 'abort', listener: () => void): void {
    this.#listeners = this.#listeners === NO_LISTENERS ? [listener] : [...this.#listeners, listener];
  }

  removeEventListener(_: 'abort', listener: () => void): void {
    this.#listeners =
      this.#listeners.length === 1 && this.#listeners[0] === listener
        ? NO_LISTENERS
        : this.#listeners.filter((other) => other !== listener);
  }

  /** Called by what made it: `Deadlines`, or the call of which it is a part. */
  abort(reason: Stopped | TimedOut): void {
    if (this.aborted) return;
    this.#reason = reason;
    const listeners = this.#listeners;
    this.#listeners = NO_LISTENERS;
    this.#controller?.abort(reason);
    for (const listener of listeners) listener();
  }
}

const NO_LISTENERS: readonly (() => void)[] = [];

/** A thread that was busy for this share of a call's time may not have come to its answer. */
const SATURATED = 0.9;
/** How often such a call gets the same time again. */
const MAX_EXTENSIONS = 3;

/** How long this thread has not been idle since it started, ms. */
function busyOfThread(): number {
  return thread.eventLoopUtilization().active;
}

/** The calls of one signal. */
interface Waiting {
  calls: number;
  readonly stop: () => void;
}

/**
 * The deadlines of calls with the same timeout: `TimedOut` after `timeoutMs`, `Stopped` when the caller's signal is
 * aborted. All share one timer, as they expire in the order in which they began, and the calls of one signal share one
 * listener.
 *
 * A call during which this thread was saturated gets the time again, up to four times in all: a destination is not slow
 * because this process is, and to make the call again would only add to the work.
 */
export class Deadlines {
  readonly #timeoutMs: number;
  readonly #busyMs: () => number;
  /** Not expired, oldest first. */
  readonly #running = new Set<Deadline>();
  readonly #waiting = new Map<AbortSignal, Waiting>();
  #timer: NodeJS.Timeout | undefined;

  constructor(timeoutMs: number, busyMs: () => number = busyOfThread) {
    this.#timeoutMs = timeoutMs;
    this.#busyMs = busyMs;
  }

  /** Aborted at once where `outer` is. The caller calls `end`, once, when the call has settled. */
  begin(outer: AbortSignal): Deadline {
    const deadline = new Deadline(outer, performance.now() + this.#timeoutMs, this.#busyMs());
    this.#running.add(deadline);
    this.#timer ??= setTimeout(this.#expire, this.#timeoutMs);
    this.#wait(outer);
    if (outer.aborted) deadline.abort(new Stopped('stopped'));
    return deadline;
  }

  /** Forgets the call; nothing stays on its signal, which may live long. */
  end(deadline: Deadline): void {
    const { outer } = deadline;
    const waiting = this.#waiting.get(outer);
    if (waiting !== undefined) {
      waiting.calls -= 1;
      if (waiting.calls === 0) {
        outer.removeEventListener('abort', waiting.stop);
        this.#waiting.delete(outer);
      }
    }
    this.#running.delete(deadline);
    if (this.#running.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #wait(outer: AbortSignal): void {
    const known = this.#waiting.get(outer);
    if (known !== undefined) {
      known.calls += 1;
      return;
    }
    const stop = () => {
      for (const deadline of this.#running)
        if (deadline.outer === outer) deadline.abort(new Stopped('stopped'));
    };
    outer.addEventListener('abort', stop, { once: true });
    this.#waiting.set(outer, { calls: 1, stop });
  }

  readonly #expire = (): void => {
    this.#timer = undefined;
    const now = performance.now();
    for (const deadline of this.#running) {
      if (deadline.dueAt > now) {
        this.#timer = setTimeout(this.#expire, Math.ceil(deadline.dueAt - now));
        return;
      }
      this.#running.delete(deadline);
      if (this.#isOwnFault(deadline)) this.#extend(deadline, now);
      else deadline.abort(new TimedOut('timed out'));
    }
  };

  #isOwnFault({ extensions, busyAt }: Deadline): boolean {
    return extensions < MAX_EXTENSIONS && this.#busyMs() - busyAt >= SATURATED * this.#timeoutMs;
  }

  #extend(deadline: Deadline, now: number): void {
    deadline.extensions += 1;
    deadline.dueAt = now + this.#timeoutMs;
    deadline.busyAt = this.#busyMs();
    this.#running.add(deadline);
  }
}

/**
 * Settles as `work` does, or rejects with the signal's reason as soon as it is aborted: for drivers that cannot be
 * cancelled. A later result of `work` is ignored; the caller ends the connection that it runs on.
 */
export async function untilAborted<T>(work: Promise<T>, signal: AbortLike): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const leave = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', leave);
  // Both may reject after the other settled the race.
  aborted.promise.catch(() => undefined);
  work.catch(() => undefined);
  try {
    if (signal.aborted) leave();
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}
