import {
  type BreakerOptions,
  type BreakerState,
  breaker,
  type Clock,
  type Connector,
  type ConnectorDestination,
  closedBreaker,
  type Delivery,
  type DeliveryResult,
  type Logger,
  mayAttempt,
  messageOf,
  Unavailable,
} from '@tributary/core';
import { Patience } from '../patience.ts';
import type { MadeCall } from './attempt.ts';

export interface DestinationCallsOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly breaker: BreakerOptions;
  /** Calls to the destination at a time. */
  readonly maxCalls: number;
}

/** Where a delivery goes, with unsealed settings, and who knows how. */
export interface Target {
  readonly connector: Connector;
  readonly destination: ConnectorDestination;
}

/** What came of asking for a call: it was made, or there was none to be had. */
export type Attempted = MadeCall | 'circuit open' | 'no room';

interface Waiting {
  readonly delivery: Delivery;
  readonly target: Target;
  /** The wait for a call to begin is over. */
  begun(): void;
  call?: Call;
  resolve(made: Attempted): void;
}

interface Call {
  readonly batch: readonly Waiting[];
  readonly target: Target;
  /** Of the batch, those whose stage still waits. */
  readonly awaited: Set<Waiting>;
  readonly controller: AbortController;
}

/**
 * The calls to one destination: a bounded number at a time, each with as many deliveries as the connector takes and
 * as gathered in one turn of the event loop or while all calls were busy, and none while the circuit is open.
 */
export class DestinationCalls {
  readonly #options: DestinationCallsOptions;
  readonly #waiting = new Set<Waiting>();
  readonly #patience: Patience;
  #calls = 0;
  #flushing = false;
  #breaker: BreakerState;

  constructor(options: DestinationCallsOptions) {
    this.#options = options;
    this.#patience = new Patience(options.clock);
    this.#breaker = closedBreaker(options.clock());
  }

  /**
   * One attempt. Never rejects for what the destination or the connector does; rejects with `Unavailable` once
   * `signal` is aborted. A call that nobody waits for any more is aborted too. `no room` when no call could begin
   * within `patienceMs`, because those under way take so long.
   */
  attempt(delivery: Delivery, target: Target, signal: AbortSignal, patienceMs?: number): Promise<Attempted> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#abandon(waiting);
        reject(new Unavailable('stopped while a delivery was under way'));
      };
      const waiting: Waiting = {
        delivery,
        target,
        begun: () => {},
        resolve(made) {
          signal.removeEventListener('abort', leave);
          resolve(made);
        },
      };
      if (signal.aborted) return leave();
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.add(waiting);
      if (patienceMs !== undefined) {
        waiting.begun = this.#patience.wait(patienceMs, () => {
          if (this.#waiting.delete(waiting)) waiting.resolve('no room');
        });
      }
      this.#flushSoon();
    });
  }

  #abandon(waiting: Waiting): void {
    this.#waiting.delete(waiting);
    waiting.begun();
    const { call } = waiting;
    if (call?.awaited.delete(waiting) && call.awaited.size === 0) call.controller.abort();
  }

  /** At the end of this turn, so that what the log hands over in one sweep shares calls. */
  #flushSoon(): void {
    if (this.#flushing) return;
    this.#flushing = true;
    setImmediate(() => {
      this.#flushing = false;
      this.#flush();
    });
  }

  #flush(): void {
    const { clock, maxCalls, breaker: options } = this.#options;
    while (this.#waiting.size > 0) {
      if (!mayAttempt(this.#breaker, clock(), options)) {
        for (const waiting of this.#waiting) waiting.resolve('circuit open');
        this.#waiting.clear();
        return;
      }
      if (this.#calls >= maxCalls) return;
      void this.#make(this.#nextCall());
    }
  }

  #nextCall(): Call {
    const batch: Waiting[] = [];
    let target: Target | undefined;
    for (const waiting of this.#waiting) {
      target ??= waiting.target;
      if (batch.length >= Math.max(1, target.connector.batchSize(target.destination))) break;
      // settings of another version may name another place: not in one call
      if (waiting.target.destination.version !== target.destination.version) break;
      batch.push(waiting);
    }
    if (target === undefined) throw new Error('a call needs a delivery');
    const call: Call = { batch, target, awaited: new Set(batch), controller: new AbortController() };
    for (const waiting of batch) {
      this.#waiting.delete(waiting);
      waiting.begun();
      waiting.call = call;
    }
    return call;
  }

  async #make(call: Call): Promise<void> {
    const { clock } = this.#options;
    const startedAt = clock();
    this.#calls += 1;
    this.#note('attempt', startedAt);
    const results = await this.#deliver(call);
    const endedAt = clock();
    this.#calls -= 1;
    if (!call.controller.signal.aborted) {
      const answered = results.some((result) => result.outcome !== 'retry');
      this.#note(answered ? 'success' : 'failure', endedAt);
    }
    call.batch.forEach((waiting, index) => {
      waiting.resolve({ result: results[index] ?? CONNECTOR_FAILED, startedAt, endedAt });
    });
    this.#flush();
  }

  /** A connector that throws has a fault of its own: the deliveries are retried, so that people see it and none is lost. */
  async #deliver({ batch, target, controller }: Call): Promise<readonly DeliveryResult[]> {
    const { connector, destination } = target;
    const deliveries = batch.map(({ delivery }) => delivery);
    try {
      return await connector.deliver(destination, deliveries, { signal: controller.signal });
    } catch (error) {
      this.#options.logger.error(
        { destination: destination.id, error: messageOf(error) },
        'a connector threw instead of answering',
      );
      return deliveries.map(() => CONNECTOR_FAILED);
    }
  }

  #note(event: 'attempt' | 'success' | 'failure', now: number): void {
    this.#breaker = breaker(this.#breaker, event, now, this.#options.breaker);
  }
}

const CONNECTOR_FAILED: DeliveryResult = { outcome: 'retry', reason: 'the connector failed' };
