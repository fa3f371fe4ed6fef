import { messageOf, Overloaded, Unavailable } from '@tributary/core';

export interface GroupCommitOptions<Request> {
  /** Makes a group durable. Answers travel in the requests themselves. Any rejection fails the whole group. */
  readonly commit: (group: readonly Request[]) => Promise<void>;
  /** Groups under way at the same time. */
  readonly maxInFlight: number;
  /**
   * So many requests go as a group at once, without waiting for the end of this turn: the medium works on them while
   * the rest of a burst is still being read. Default: never.
   */
  readonly eagerRequests?: number;
  /** Bytes that were taken and are not yet durable, at most. One request alone may be larger. */
  readonly maxUnconfirmedBytes: number;
  /** Bytes in one group, at most. One request alone may be larger. */
  readonly maxGroupBytes: number;
}

interface Waiting<Request> {
  readonly request: Request;
  readonly bytes: number;
  readonly resolve: () => void;
  readonly reject: (reason: Unavailable) => void;
}

/**
 * Turns concurrent requests into few commits without lingering: what is asked for in one turn of the event loop, or
 * while earlier groups are under way, goes as the next group, in the order of the calls.
 *
 * Rejects with `Overloaded` when the bound is passed (nothing was taken), with `Unavailable` when the commit of the
 * group failed (whether it is durable is unknown).
 */
export class GroupCommit<Request> {
  readonly #options: GroupCommitOptions<Request>;
  #waiting: Waiting<Request>[] = [];
  #inFlight = 0;
  #unconfirmedBytes = 0;
  #dispatching = false;
  #idle: (() => void)[] = [];

  constructor(options: GroupCommitOptions<Request>) {
    this.#options = options;
  }

  add(request: Request, bytes: number): Promise<void> {
    if (this.#unconfirmedBytes > 0 && this.#unconfirmedBytes + bytes > this.#options.maxUnconfirmedBytes) {
      return Promise.reject(new Overloaded(`${this.#unconfirmedBytes} bytes wait to be made durable`));
    }
    this.#unconfirmedBytes += bytes;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ request, bytes, resolve, reject });
      const { eagerRequests = Number.POSITIVE_INFINITY } = this.#options;
      if (this.#waiting.length >= eagerRequests) this.#dispatch();
      else this.#dispatchThisTurn();
    });
  }

  /** Resolves when nothing that was taken is unconfirmed. */
  async drained(): Promise<void> {
    while (this.#waiting.length > 0 || this.#inFlight > 0) {
      await new Promise<void>((resolve) => this.#idle.push(resolve));
    }
  }

  /** At the end of this turn of the event loop, so that requests read from many sockets at once share a group. */
  #dispatchThisTurn(): void {
    if (this.#dispatching || this.#inFlight >= this.#options.maxInFlight) return;
    this.#dispatching = true;
    setImmediate(() => {
      this.#dispatching = false;
      this.#dispatch();
    });
  }

  #dispatch(): void {
    while (this.#waiting.length > 0 && this.#inFlight < this.#options.maxInFlight) {
      void this.#commit(this.#takeGroup());
    }
  }

  #takeGroup(): readonly Waiting<Request>[] {
    let bytes = 0;
    let count = 0;
    for (const waiting of this.#waiting) {
      bytes += waiting.bytes;
      if (count > 0 && bytes > this.#options.maxGroupBytes) break;
      count++;
    }
    if (count === this.#waiting.length) {
      const all = this.#waiting;
      this.#waiting = [];
      return all;
    }
    return this.#waiting.splice(0, count);
  }

  async #commit(group: readonly Waiting<Request>[]): Promise<void> {
    this.#inFlight++;
    try {
      await this.#options.commit(group.map((waiting) => waiting.request));
      for (const waiting of group) waiting.resolve();
    } catch (thrown) {
      const reason = asUnavailable(thrown);
      for (const waiting of group) waiting.reject(reason);
    } finally {
      this.#inFlight--;
      for (const waiting of group) this.#unconfirmedBytes -= waiting.bytes;
      this.#dispatch();
      if (this.#inFlight === 0) for (const resolve of this.#idle.splice(0)) resolve();
    }
  }
}

function asUnavailable(thrown: unknown): Unavailable {
  if (thrown instanceof Unavailable) return thrown;
  return new Unavailable(`not confirmed: ${messageOf(thrown)}`, { cause: thrown });
}
