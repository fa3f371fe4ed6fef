import { Stopped, TimedOut } from '../failures.ts';

/** What those need of a signal who are to end with it; every `AbortSignal` has it. */
export interface Ending {
  readonly aborted: boolean;
  /** Undefined before it is aborted. */
  readonly reason: Error | undefined;
  addEventListener(type: 'abort', told: () => void): void;
  removeEventListener(type: 'abort', told: () => void): void;
}

/** How long one call may go on. It is a signal without what makes those dear: an `AbortSignal` is made for who asks. */
export class Deadline implements Ending {
  /** The signal of who waits for the call. */
  readonly outer: AbortSignal;
  /** When its time is over, by `performance.now()`. */
  readonly dueAt: number;
  #reason: Stopped | TimedOut | undefined;
  #controller: AbortController | undefined;
  #told: readonly (() => void)[] = NOBODY;

  constructor(outer: AbortSignal, dueAt: number) {
    this.outer = outer;
    this.dueAt = dueAt;
  }

  get aborted(): boolean {
    return this.#reason !== undefined;
  }

  get reason(): Stopped | TimedOut | undefined {
    return this.#reason;
  }

  /** The same for drivers that know nothing else. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.aborted) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  throwIfAborted(): void {
    if (this.#reason !== undefined) throw this.#reason;
  }

  /** `told` is called once, unless it is aborted already. */
  addEventListener(_: 'abort', told: () => void): void {
    this.#told = this.#told === NOBODY ? [told] : [...this.#told, told];
  }

  removeEventListener(_: 'abort', told: () => void): void {
    this.#told =
      this.#told.length === 1 && this.#told[0] === told
        ? NOBODY
        : this.#told.filter((other) => other !== told);
  }

  /** For `Deadlines`, which know when. */
  abort(reason: Stopped | TimedOut): void {
    if (this.aborted) return;
    this.#reason = reason;
    const told = this.#told;
    this.#told = NOBODY;
    this.#controller?.abort(reason);
    for (const tell of told) tell();
  }
}

const NOBODY: readonly (() => void)[] = [];

/** The calls that wait for one signal. */
interface Waiting {
  calls: number;
  readonly stop: () => void;
}

/**
 * The deadlines of calls that all may take equally long: `TimedOut` after `timeoutMs`, `Stopped` when the signal of who
 * waits is aborted. One timer is for all of them, since their time is over in the order in which they began, and one
 * listener for all that wait for the same signal.
 */
export class Deadlines {
  readonly #timeoutMs: number;
  /** Oldest first, until their time is over. */
  readonly #running = new Set<Deadline>();
  readonly #waiting = new Map<AbortSignal, Waiting>();
  #timer: NodeJS.Timeout | undefined;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** It is aborted already where `outer` is. What is begun is ended, once, when the call has settled. */
  begin(outer: AbortSignal): Deadline {
    const deadline = new Deadline(outer, performance.now() + this.#timeoutMs);
    this.#running.add(deadline);
    this.#timer ??= setTimeout(this.#expire, this.#timeoutMs);
    this.#wait(outer);
    if (outer.aborted) deadline.abort(new Stopped('stopped'));
    return deadline;
  }

  /** Nothing of the call is kept, least of all on its signal, which lives on. */
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
      deadline.abort(new TimedOut('timed out'));
    }
  };
}

/**
 * Runs `work` under a signal that is aborted with `TimedOut` after `timeoutMs`, or with `Stopped` when `outer` is.
 * `work` must settle soon after its signal; the long-lived `outer` keeps nothing of a finished call.
 */
export async function withDeadline<T>(
  outer: AbortSignal,
  timeoutMs: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadlines = new Deadlines(timeoutMs);
  const deadline = deadlines.begin(outer);
  try {
    deadline.throwIfAborted();
    return await work(deadline.signal);
  } finally {
    deadlines.end(deadline);
  }
}

/**
 * Settles as `work` does, or rejects with the signal's reason as soon as it is aborted: for drivers that cannot be
 * called off. What `work` does after that is nobody's; whoever began it ends the connection it runs on.
 */
export async function untilAborted<T>(work: Promise<T>, signal: Ending): Promise<T> {
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
