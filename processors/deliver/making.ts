import {
  type Catalog,
  type Clock,
  type Delivery,
  type Destination,
  type Headers,
  iso,
  type Metrics,
  type StageContext,
  StoredDelivery,
  stoppedByRule,
  Unavailable,
  withFields,
} from '@tributary/core';
import type { Impatient, Patience, Wait } from '../patience.ts';
import { type MadeCall, type Piece, withAttempt } from './attempt.ts';
import type { Attempted, Call, Waiting } from './call.ts';
import type { Climb, Delivered } from './climb.ts';
import type { DestinationCalls } from './destination-calls.ts';
import type { Ended, HandedOver } from './handed-over.ts';
import { type Follower, Interest } from './interest.ts';
import type { Settlement } from './settlement.ts';
import { PAUSED } from './target.ts';

/** A delivery as it comes from the log. */
export interface Arrived extends Piece {
  /** Of its entry, and the catalog position as of which its rule still made it. Absent: its rule is not asked about. */
  readonly headers?: Headers;
  readonly ruleSeenAt?: number;
  /** The turn it was given when its destination had no room for it, and since when that is so; epoch ms. */
  readonly turn?: number | undefined;
  readonly asideSince?: number | undefined;
  /** Nothing is told of it where its first attempt delivers it: that attempt need not be kept. */
  readonly untold?: boolean;
  /** It was neither tried nor put off before: its time to expire begins now, however long the stages left it lying. */
  readonly untried?: boolean;
}

/** Who has a delivery made. Told one of these, once, and must not throw for it. */
export interface Asker {
  /** How it goes on, with the attempts made now. `slow`: no call could begin in good time. */
  settled(stored: StoredDelivery, settlement: Settlement): void;
  /** `Unavailable` when nobody waits for it any more, `InvalidInput` for what is no delivery. */
  failed(error: unknown): void;
}

/** What an asker was told, for who promises it. */
export interface Settled {
  readonly stored: StoredDelivery;
  readonly settlement: Settlement;
}

/** What is the same for every delivery that a process makes. */
export interface MakingTools {
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly keptAttempts: number;
  readonly climb: Climb;
  readonly patience: Patience;
  readonly handedOver: HandedOver;
  current(id: string): Destination | undefined;
  readonly catalog: Pick<Catalog, 'position' | 'state'>;
}

/** How long may be waited, and what then. */
export interface Waits {
  readonly ms: number;
  /** Whether a call may be held open for others to share it for as long as it takes. */
  readonly mayBeHeld: boolean;
  /** Whether a call that takes longer goes on for who joins it; else it takes as long as it takes. */
  readonly isHandedOver: boolean;
}

const DELIVERED: Settlement = { kind: 'delivered' };
const SLOW: Settlement = { kind: 'slow' };

/**
 * A delivery while it is made: from when a call is asked for until it is settled. One object in which the limits,
 * the calls and the lanes keep what they have to, as thousands wait at a time.
 */
export class Making implements Waiting, Impatient, Follower {
  readonly #tools: MakingTools;
  readonly #destination: Destination;
  readonly #calls: DestinationCalls;
  readonly #waits: Waits;
  readonly #untold: boolean;
  readonly #untried: boolean;
  readonly #headers: Headers | undefined;
  #ruleSeenAt: number | undefined;
  readonly interest: Interest = new Interest(this);
  readonly bytes: number;
  readonly #asItCame: StoredDelivery;
  /** With the attempts made now. */
  stored: StoredDelivery;
  since = 0;
  call: Call | undefined = undefined;
  #asker: Asker | undefined;
  #stopping: AbortSignal | undefined;
  #wait: Wait | undefined;
  #isHandedOver = false;
  /** Whether the attempt that is made repeats one at once. */
  #isAtOnce = false;

  constructor(
    tools: MakingTools,
    { stored, bytes, headers, ruleSeenAt, untold = false, untried = false }: Arrived,
    destination: Destination,
    calls: DestinationCalls,
    waits: Waits,
    asker: Asker,
  ) {
    this.#tools = tools;
    this.#asItCame = stored;
    this.stored = stored;
    this.bytes = bytes;
    this.#untold = untold;
    this.#untried = untried;
    this.#headers = headers;
    this.#ruleSeenAt = ruleSeenAt;
    this.#destination = destination;
    this.#calls = calls;
    this.#waits = waits;
    this.#asker = asker;
  }

  begin({ signal, stopping }: StageContext): void {
    this.#stopping = stopping;
    this.interest.follow(signal);
    if (!this.interest.isLost) this.#ask();
  }

  #ask(): void {
    this.#wait ??= this.#tools.patience.wait(this.#waits.ms, this);
    this.#calls.attempt(this);
  }

  isStopped(): boolean {
    const { catalog } = this.#tools;
    if (this.#headers === undefined || this.#ruleSeenAt === catalog.position) return false;
    this.#ruleSeenAt = catalog.position;
    try {
      const { workspace_id } = this.#destination;
      const reason = stoppedByRule(this.stored, this.#headers, workspace_id, catalog.state);
      if (reason === undefined) return false;
      this.#settle(this.stored, { kind: 'dead', cause: 'rule', reason });
    } catch (error) {
      this.fail(error);
    }
    return true;
  }

  begun(): void {
    if (!this.#waits.isHandedOver) this.#endWait();
  }

  outOfPatience(): void {
    this.#wait = undefined;
    const { mayBeHeld } = this.#waits;
    if (this.call !== undefined) {
      // When the stage stops there is nothing left to hurry for.
      if (!this.#isHandedOver && this.#stopping?.aborted !== true) this.#handOver();
    } else if (mayBeHeld && this.#calls.isHeldOpen) {
      this.#wait = this.#tools.patience.wait(this.#waits.ms, this);
    } else {
      this.#calls.leave(this);
      this.#settle(this.stored, SLOW);
    }
  }

  /** The call goes on, and whoever waited has the delivery go to the slow lane as it came, to join it there. */
  #handOver(): void {
    const asker = this.#asker;
    const { promise: ended, resolve, reject } = Promise.withResolvers<Ended>();
    try {
      this.#tools.handedOver.put(this.#asItCame.delivery, { ended, interest: this.interest });
    } catch (error) {
      this.#calls.leave(this);
      this.fail(error);
      return;
    }
    this.#isHandedOver = true;
    this.interest.release();
    this.#asker = {
      settled({ delivery: { attempts, created_at } }, settlement) {
        resolve({ attempts, created_at, settlement });
      },
      failed: reject,
    };
    asker?.settled(this.#asItCame, SLOW);
  }

  lost(): void {
    this.#calls.leave(this);
    this.fail(new Unavailable('stopped while a delivery was under way'));
  }

  fail(error: unknown): void {
    this.#end()?.failed(error);
  }

  attempted(made: Attempted): void {
    this.call = undefined;
    if (this.#asker === undefined) return;
    try {
      if (typeof made === 'object' && 'result' in made) this.#called(made);
      else this.#refused(made);
    } catch (error) {
      this.fail(error);
    }
  }

  #called(made: MadeCall): void {
    const { result } = made;
    const { keptAttempts, climb } = this.#tools;
    if (this.#untold && !this.#isAtOnce && result.outcome === 'delivered') {
      this.#settle(this.stored, DELIVERED);
      return;
    }
    const tried = this.#isAtOnce || result.outcome === 'delivered' ? this.stored.delivery : this.#begunNow();
    const delivery = withAttempt(tried, made, this.#isAtOnce, keptAttempts);
    this.stored = StoredDelivery.of(delivery);
    const settlement = result.outcome === 'delivered' ? DELIVERED : climb.after(delivery, result);
    if (settlement !== 'again-now') this.#settle(this.stored, settlement);
    else if (!this.interest.isLost) {
      this.#isAtOnce = true;
      this.#ask();
    }
  }

  #refused(refusal: Exclude<Attempted, MadeCall>): void {
    const { climb, metrics, current } = this.#tools;
    const { id, type } = this.#destination;
    const going = () => (this.#isAtOnce ? this.stored.delivery : this.#begunNow());
    if (refusal === 'circuit open') {
      metrics.count('tributary_deliveries_total', { outcome: 'circuit_open', connector: type });
      this.#calls.notePutOff();
      this.#settleAs(climb.putOff(going(), 'circuit open', this.#calls.circuitOpenMs()));
      return;
    }
    const { unreachable: reason, forGood } = refusal;
    if (reason === PAUSED) this.#settleAs(climb.hold(this.stored.delivery, current(id) ?? this.#destination));
    else if (forGood) this.#settle(this.stored, { kind: 'dead', cause: 'destination', reason });
    else this.#settleAs(climb.putOff(going(), reason));
  }

  #begunNow(): Delivery {
    const { delivery } = this.stored;
    return this.#untried ? withFields(delivery, { created_at: iso(this.#tools.clock()) }) : delivery;
  }

  #settleAs({ delivery, settlement }: Delivered): void {
    this.#settle(StoredDelivery.of(delivery), settlement);
  }

  #settle(stored: StoredDelivery, settlement: Settlement): void {
    this.#end()?.settled(stored, settlement);
  }

  /** Who is to be told, once. */
  #end(): Asker | undefined {
    this.#endWait();
    this.interest.release();
    const asker = this.#asker;
    this.#asker = undefined;
    return asker;
  }

  #endWait(): void {
    this.#wait?.end();
    this.#wait = undefined;
  }
}
