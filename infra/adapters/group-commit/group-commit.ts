import { messageOf, Overloaded, Unavailable } from '@tributary/core';

export interface GroupCommitOptions<Request, Result> {
  /**
   * Makes a group durable and returns the result of each request, in order. An error in place of a result fails its request
   * alone, a rejection the whole group.
   */
  readonly commit: (group: readonly Request[]) => Promise<readonly (Result | Error)[]>;
  /** Maximum number of groups under way at the same time. */
  readonly maxInFlight: number;
  /**
   * Number of queued requests that are committed at once, before the end of this turn of the event loop, so that the medium
   * works while the rest of a burst is still being read. Default: never.
   */
  readonly eagerRequests?: number;
  /** Maximum of accepted bytes that are not durable yet. A single request may be larger. */
  readonly maxUnconfirmedBytes: number;
  /** Maximum size of a group. A single request may be larger. */
  readonly maxGroupBytes: number;
}

interface QueuedRequest<Request, Result> {
  readonly request: Request;
  readonly bytes: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (reason: Error) => void;
}

/**
 * Combines concurrent requests into few commits without a linger time: the requests of one turn of the event loop, or of
 * the time while earlier groups are under way, form the next group, in the order of the calls.
 *
 * Rejects with `Overloaded` beyond the bound (nothing was accepted), and with `Unavailable` when the commit of the group
 * failed (whether it is durable is unknown).
 */
export class GroupCommit<Request, Result> {
  readonly #options: GroupCommitOptions<Request, Result>;
  #queue: QueuedRequest<Request, Result>[] = [];
  #inFlight = 0;
  #unconfirmedBytes = 0;
  #dispatching = false;
  #idle: (() => void)[] = [];

  constructor(options: GroupCommitOptions<Request, Result>) {
    this.#options = options;
  }

  add(request: Request, bytes: number): Promise<Result> {
    if (this.#unconfirmedBytes > 0 && this.#unconfirmedBytes + bytes > this.#options.maxUnconfirmedBytes) {
      return Promise.reject(new Overloaded(`${this.#unconfirmedBytes} bytes wait to be made durable`));
    }
    this.#unconfirmedBytes += bytes;
    return new Promise((resolve, reject) => {
      this.#queue.push({ request, bytes, resolve, reject });
      const { eagerRequests = Number.POSITIVE_INFINITY } = this.#options;
      if (this.#queue.length >= eagerRequests) this.#dispatch();
      else this.#dispatchThisTurn();
    });
  }

  /** Whether no request is queued or under way. */
  get isIdle(): boolean {
    return this.#queue.length === 0 && this.#inFlight === 0;
  }

  /** Resolves when all accepted requests are settled. */
  async drained(): Promise<void> {
    while (this.#queue.length > 0 || this.#inFlight > 0) {
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
    while (this.#queue.length > 0 && this.#inFlight < this.#options.maxInFlight) {
      void this.#commit(this.#takeGroup());
    }
  }

  #takeGroup(): readonly QueuedRequest<Request, Result>[] {
    let bytes = 0;
    let count = 0;
    for (const waiting of this.#queue) {
      bytes += waiting.bytes;
      if (count > 0 && bytes > this.#options.maxGroupBytes) break;
      count++;
    }
    if (count === this.#queue.length) {
      const all = this.#queue;
      this.#queue = [];
      return all;
    }
    return this.#queue.splice(0, count);
  }

  async #commit(group: readonly QueuedRequest<Request, Result>[]): Promise<void> {
    this.#inFlight++;
    try {
      const results = await this.#options.commit(group.map((waiting) => waiting.request));
      for (const [i, waiting] of group.entries()) {
        const result = results[i];
        if (result instanceof Error) waiting.reject(result);
        else waiting.resolve(result as Result);
      }
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
