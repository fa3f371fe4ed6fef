import {
  type BreakerOptions,
  type BreakerState,
  breaker,
  type Clock,
  closedBreaker,
  type Delivery,
  type DeliveryResult,
  type Logger,
  mayAttempt,
  messageOf,
  Unavailable,
} from '@tributary/core';
import type { Patience } from '../patience.ts';
import type { MadeCall } from './attempt.ts';
import type { Interest } from './interest.ts';
import type { Target, Targets, Unreachable } from './target.ts';

export interface DestinationCallsOptions {
  readonly clock: Clock;
  /** Ms that never go back. */
  readonly elapsed: Clock;
  readonly logger: Logger;
  readonly breaker: BreakerOptions;
  /** Calls to the destination at a time. */
  readonly maxCalls: number;
}

/** What came of asking for a call: it was made, or there was none to be had. */
export type Attempted = MadeCall | Unreachable | 'circuit open' | 'no room';

interface Waiting {
  readonly delivery: Delivery;
  /** The wait for a call to begin is over. */
  begun(): void;
  call?: Call;
  resolve(made: Attempted): void;
}

interface Call {
  readonly batch: readonly Waiting[];
  readonly target: Target;
  /** Of the batch, those somebody still waits for. */
  readonly awaited: Set<Waiting>;
  readonly controller: AbortController;
}

/**
 * The calls to one destination: a bounded number at a time, each with as many deliveries as the connector takes and
 * as gathered in one turn of the event loop or while all calls were busy, and none while the circuit is open. Where a
 * call goes is asked when it begins.
 */
export class DestinationCalls {
  readonly #options: DestinationCallsOptions;
  readonly #targets: Pick<Targets, 'id' | 'now'>;
  readonly #patience: Patience;
  readonly #waiting = new Set<Waiting>();
  #calls = 0;
  #flushing = false;
  #breaker: BreakerState;
  #usedAt: number;

  constructor(options: DestinationCallsOptions, patience: Patience, targets: Pick<Targets, 'id' | 'now'>) {
    this.#options = options;
    this.#patience = patience;
    this.#targets = targets;
    this.#usedAt = options.elapsed();
    this.#breaker = closedBreaker(this.#usedAt);
  }

  /** How long nothing was asked for or under way, ms. */
  idleMs(): number {
    if (this.#calls > 0 || this.#waiting.size > 0) return 0;
    return this.#options.elapsed() - this.#usedAt;
  }

  /**
   * One attempt. Never rejects for what the destination or the connector does; rejects with `Unavailable` once the
   * interest is lost. A call that nobody waits for any more is aborted too. `no room` when no call could begin
   * within `patienceMs`, because those under way take so long.
   */
  attempt(delivery: Delivery, interest: Interest, patienceMs?: number): Promise<Attempted> {
    this.#usedAt = this.#options.elapsed();
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        delivery,
        begun: () => {},
        resolve(made) {
          interest.onLost = () => {};
          resolve(made);
        },
      };
      const leave = () => {
        this.#abandon(waiting);
        reject(new Unavailable('stopped while a delivery was under way'));
      };
      if (interest.lost) return leave();
      interest.onLost = leave;
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
    const { elapsed, maxCalls, breaker: options } = this.#options;
    while (this.#waiting.size > 0) {
      if (!mayAttempt(this.#breaker, elapsed(), options)) {
        this.#refuseAll('circuit open');
        return;
      }
      if (this.#calls >= maxCalls) return;
      const target = this.#guarded(() => this.#targets.now(), NOT_FOUND);
      if ('unreachable' in target) this.#refuseAll(target);
      else void this.#make(this.#nextCall(target));
    }
  }

  #refuseAll(refusal: Unreachable | 'circuit open'): void {
    for (const waiting of this.#waiting) {
      waiting.begun();
      waiting.resolve(refusal);
    }
    this.#waiting.clear();
  }

  #nextCall(target: Target): Call {
    const { connector, destination } = target;
    const size = this.#guarded(() => Math.max(1, connector.batchLimits(destination).events), 1);
    const batch: Waiting[] = [];
    for (const waiting of this.#waiting) {
      if (batch.length >= size) break;
      batch.push(waiting);
    }
    const call: Call = { batch, target, awaited: new Set(batch), controller: new AbortController() };
    for (const waiting of batch) {
      this.#waiting.delete(waiting);
      waiting.begun();
      waiting.call = call;
    }
    return call;
  }

  async #make(call: Call): Promise<void> {
    const { clock, elapsed } = this.#options;
    const [startedAt, began] = [clock(), elapsed()];
    this.#calls += 1;
    this.#note('attempt', began);
    const results = await this.#deliver(call);
    const ended = elapsed();
    this.#calls -= 1;
    this.#usedAt = ended;
    if (!call.controller.signal.aborted) {
      const answered = results.some((result) => result.outcome !== 'retry');
      this.#note(answered ? 'success' : 'failure', ended);
    }
    call.batch.forEach((waiting, index) => {
      waiting.resolve({ result: results[index] ?? CONNECTOR_FAILED, startedAt, durationMs: ended - began });
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
      this.#tell(error);
      return deliveries.map(() => CONNECTOR_FAILED);
    }
  }

  /** A throw here, in a turn of its own, would end all stages. */
  #guarded<T>(ask: () => T, otherwise: T): T {
    try {
      return ask();
    } catch (error) {
      this.#tell(error);
      return otherwise;
    }
  }

  #tell(error: unknown): void {
    const about = { destination: this.#targets.id, error: messageOf(error) };
    this.#options.logger.error(about, 'a connector threw instead of answering');
  }

  #note(event: 'attempt' | 'success' | 'failure', now: number): void {
    this.#breaker = breaker(this.#breaker, event, now, this.#options.breaker);
  }
}

const CONNECTOR_FAILED: DeliveryResult = { outcome: 'retry', reason: 'the connector failed' };
const NOT_FOUND: Unreachable = { unreachable: 'the connector failed', forGood: false };
