import {
  type BatchLimits,
  type BreakerOptions,
  type Clock,
  type Delivery,
  type DeliveryResult,
  type HealthReport,
  HealthTally,
  type Ladder,
  type Logger,
  messageOf,
  type Turn,
  turnOf,
  Unavailable,
} from '@tributary/core';
import type { Patience } from '../patience.ts';
import type { MadeCall, Piece } from './attempt.ts';
import { gather } from './batch.ts';
import { type Ahead, CallTimes } from './call-times.ts';
import { type CallLimits, Gate } from './gate.ts';
import type { Interest } from './interest.ts';
import type { Target, Targets, Unreachable } from './target.ts';

export interface DestinationCallsOptions {
  readonly clock: Clock;
  /** Ms that never go back. */
  readonly elapsed: Clock;
  readonly logger: Logger;
  readonly breaker: BreakerOptions;
  readonly ladder: Ladder;
  /** What calls to a destination are held to by this process, as it is configured now. */
  limitsOf(id: string): CallLimits;
  /** Whether this process is what others wait for. */
  overloaded(): boolean;
}

/** What came of asking for a call: it was made, or there was none to be had. */
export type Attempted = MadeCall | Unreachable | 'circuit open' | 'no room';

/** What is told of a destination, but for who tells it. */
export type DestinationReport = Omit<HealthReport, 'workspace_id' | 'process'>;

interface Waiting {
  readonly delivery: Delivery;
  readonly bytes: number;
  readonly since: number;
  /** The wait for a call to begin is over. */
  begun(): void;
  call?: Call;
  resolve(made: Attempted): void;
}

interface Call {
  readonly batch: readonly Waiting[];
  readonly target: Target;
  readonly limits: CallLimits;
  /** Of the batch, those somebody still waits for. */
  readonly awaited: Set<Waiting>;
  readonly controller: AbortController;
  /** Epoch ms, and ms of the clock that never goes back. */
  readonly startedAt: number;
  readonly began: number;
}

/** While this process is overloaded, calls that take no longer than this are not what makes others wait, ms. */
const OWN_FAULT_MS = 2_000;

/** What was put aside is invited until so much is held for its destination, ms: longer than one looks for more. */
const HELD_MS = 2_000;
/** After so long whoever was invited is here, ms. */
const INVITED_MS = 1_000;

/**
 * The calls to one destination: a bounded number at a time and a second, each with as many deliveries as the connector
 * takes and as gathered in one turn of the event loop, or for as long as it wants, or while all calls were busy; and
 * none while the circuit is open. Where a call goes is asked when it begins.
 */
export class DestinationCalls {
  readonly #options: DestinationCallsOptions;
  readonly #targets: Pick<Targets, 'id' | 'now'>;
  readonly #patience: Patience;
  readonly #gate: Gate;
  readonly #times = new CallTimes();
  readonly #tally: HealthTally;
  readonly #waiting = new Set<Waiting>();
  /** Under way, oldest first. */
  readonly #calls = new Set<Call>();
  #flushing = false;
  #flushingLater: { readonly timer: NodeJS.Timeout; readonly at: number } | undefined;
  /** Whether a call could begin, and waits only for more to share it. */
  #isHeldOpen = false;
  #usedAt: number;
  /** Behind the turns of all that was put aside, epoch ms. */
  #horizon = 0;
  /** Who may have been invited and not come yet. */
  #invited = { since: 0, count: 0 };

  constructor(options: DestinationCallsOptions, patience: Patience, targets: Pick<Targets, 'id' | 'now'>) {
    this.#options = options;
    this.#patience = patience;
    this.#targets = targets;
    this.#usedAt = options.elapsed();
    this.#gate = new Gate(options.breaker, this.#usedAt);
    this.#tally = new HealthTally(this.#usedAt);
  }

  /** How long nothing was asked for or under way, ms. It is not idle while it asks not to be called. */
  idleMs(): number {
    const { elapsed, limitsOf } = this.#options;
    const isHeld = this.#gate.paceMs(limitsOf(this.#targets.id), elapsed()) > 0;
    if (isHeld || this.#calls.size > 0 || this.#waiting.size > 0) return 0;
    return elapsed() - this.#usedAt;
  }

  /**
   * How long a delivery that comes now would wait for its call to begin, ms; `ofItsOwn`: as far as that is the
   * destination's doing. Nothing while the circuit is open: it is told so at once.
   */
  expectedWaitMs(ofItsOwn: boolean): number {
    const ahead = this.#ahead();
    if (this.#gate.isOpen(this.#options.elapsed())) return 0;
    return this.#times.waitMs(ahead, ofItsOwn && this.#isOwnFault(ahead));
  }

  /** The turn of a delivery that is not to wait here; the one it was given before, if any. */
  turn(before: number | undefined): Turn {
    const { clock, ladder } = this.#options;
    const ahead = this.#ahead();
    const turn = turnOf({
      now: clock(),
      waitMs: this.#times.waitMs(ahead),
      eachMs: this.#times.eachMs(ahead),
      horizon: this.#horizon,
      turn: before,
      ladder,
    });
    this.#horizon = turn.horizon;
    return turn;
  }

  /**
   * Whether a delivery that was put aside may come before its time: so little is held for the destination that it would
   * be at rest before long. Who is told so is expected here. One alone, until it is known how long calls take.
   */
  invite(): boolean {
    const now = this.#options.elapsed();
    if (this.#gate.circuit(now).kind !== 'closed') return false;
    if (now - this.#invited.since > INVITED_MS) this.#invited = { since: now, count: 0 };
    const ahead = this.#ahead();
    const waiting = ahead.waiting + this.#invited.count;
    if (this.#times.waitMs({ ...ahead, waiting }) > (this.#times.areKnown ? HELD_MS : 0)) return false;
    this.#invited.count += 1;
    return true;
  }

  /** A delivery of it was put off without an attempt. */
  notePutOff(): void {
    this.#tally.putOff(this.#options.elapsed());
  }

  /** For how long the circuit has let nothing but probes begin, ms. */
  circuitOpenMs(): number {
    const now = this.#options.elapsed();
    const { kind, since } = this.#gate.circuit(now);
    return kind === 'closed' ? 0 : now - since;
  }

  /** How the destination is doing, by this process. */
  health(): DestinationReport {
    const [now, elapsed] = [this.#options.clock(), this.#options.elapsed()];
    const [oldest] = this.#waiting;
    const { kind, since } = this.#gate.circuit(elapsed);
    return {
      destination_id: this.#targets.id,
      at: now,
      ...this.#tally.tallied(elapsed),
      waiting: this.#waiting.size,
      under_way: [...this.#calls].reduce((sum, { batch }) => sum + batch.length, 0),
      oldest_waiting_at: oldest === undefined ? null : Math.round(now - (elapsed - oldest.since)),
      circuit: kind,
      circuit_since: Math.round(now - (elapsed - since)),
    };
  }

  /**
   * One attempt. Never rejects for what the destination or the connector does; rejects with `Unavailable` once the
   * interest is lost. A call that nobody waits for any more is aborted too. `no room` when no call could begin
   * within `patienceMs`, because those under way take so long, or because it may not be called more often. The time
   * for which a call is held open for others to share it does not count for who may be held.
   */
  attempt(
    { delivery, bytes }: Piece,
    interest: Interest,
    patienceMs: number,
    mayBeHeld: boolean,
  ): Promise<Attempted> {
    this.#usedAt = this.#options.elapsed();
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        delivery,
        bytes,
        since: this.#usedAt,
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
      this.#giveUpAfter(patienceMs, waiting, mayBeHeld);
      this.#flushSoon();
    });
  }

  /** While its call is held open for others, its patience begins anew; no call is held open for ever. */
  #giveUpAfter(patienceMs: number, waiting: Waiting, mayBeHeld: boolean): void {
    waiting.begun = this.#patience.wait(patienceMs, () => {
      if (this.#isHeldOpen && mayBeHeld) this.#giveUpAfter(patienceMs, waiting, mayBeHeld);
      else if (this.#waiting.delete(waiting)) waiting.resolve('no room');
    });
  }

  #abandon(waiting: Waiting): void {
    this.#waiting.delete(waiting);
    waiting.begun();
    const { call } = waiting;
    if (call?.awaited.delete(waiting) && call.awaited.size === 0) call.controller.abort();
  }

  #ahead(): Ahead {
    const now = this.#options.elapsed();
    const limits = this.#options.limitsOf(this.#targets.id);
    const [oldest] = this.#calls;
    return {
      waiting: this.#waiting.size,
      underWay: this.#calls.size,
      oldestCallMs: oldest === undefined ? 0 : now - oldest.began,
      calls: this.#gate.callsAtATime(limits, now),
      perSecond: limits.perSecond,
      paceMs: this.#gate.paceMs(limits, now),
    };
  }

  #isOwnFault({ oldestCallMs }: Ahead): boolean {
    return this.#options.overloaded() && this.#times.callMs(oldestCallMs) < OWN_FAULT_MS;
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

  #flushLater(ms: number): void {
    const at = this.#options.elapsed() + ms;
    if (this.#flushingLater !== undefined && this.#flushingLater.at <= at) return;
    clearTimeout(this.#flushingLater?.timer);
    const timer = setTimeout(() => {
      this.#flushingLater = undefined;
      this.#flush();
    }, ms).unref();
    this.#flushingLater = { timer, at };
  }

  #flush(): void {
    const { elapsed, limitsOf } = this.#options;
    this.#isHeldOpen = false;
    while (this.#waiting.size > 0) {
      const now = elapsed();
      if (this.#gate.isOpen(now)) {
        this.#refuseAll('circuit open');
        return;
      }
      const limits = limitsOf(this.#targets.id);
      if (this.#calls.size >= this.#gate.callsAtATime(limits, now)) return;
      const paceMs = this.#gate.paceMs(limits, now);
      if (paceMs > 0) {
        this.#flushLater(paceMs);
        return;
      }
      const target = this.#guarded(() => this.#targets.now(), NOT_FOUND);
      if ('unreachable' in target) {
        this.#refuseAll(target);
        return;
      }
      const { batch, waitMs } = gather(this.#waiting, this.#batchLimits(target), now);
      if (waitMs > 0) {
        this.#isHeldOpen = true;
        this.#flushLater(waitMs);
        return;
      }
      void this.#make(this.#begin(batch, target, limits));
    }
    // Whoever comes now is behind nobody.
    this.#horizon = 0;
  }

  #refuseAll(refusal: Unreachable | 'circuit open'): void {
    for (const waiting of this.#waiting) {
      waiting.begun();
      waiting.resolve(refusal);
    }
    this.#waiting.clear();
  }

  /**
   * As the connector says, but a batch is held open no longer than the shortest retry topic takes: others wait behind
   * the head of a lane.
   */
  #batchLimits({ connector, destination }: Target): BatchLimits {
    const limits = this.#guarded<BatchLimits>(() => connector.batchLimits(destination), ONE_BY_ONE);
    return { ...limits, ms: Math.min(limits.ms ?? 0, this.#options.ladder[0].ms) };
  }

  #begin(batch: readonly Waiting[], target: Target, limits: CallLimits): Call {
    const { clock, elapsed } = this.#options;
    const call: Call = {
      batch,
      target,
      limits,
      awaited: new Set(batch),
      controller: new AbortController(),
      startedAt: clock(),
      began: elapsed(),
    };
    for (const waiting of batch) {
      this.#waiting.delete(waiting);
      waiting.begun();
      waiting.call = call;
    }
    return call;
  }

  async #make(call: Call): Promise<void> {
    const { batch, limits, startedAt, began, controller } = call;
    this.#calls.add(call);
    this.#gate.begun(limits, began);
    const results = await this.#deliver(call);
    const ended = this.#options.elapsed();
    this.#calls.delete(call);
    this.#usedAt = ended;
    const durationMs = ended - began;
    if (!controller.signal.aborted) {
      this.#gate.ended(results, limits, began, ended);
      this.#times.ended(durationMs, batch.length);
      for (const result of results) this.#tally.attempted(result, durationMs, this.#options.clock(), ended);
    }
    batch.forEach((waiting, index) => {
      waiting.resolve({ result: results[index] ?? CONNECTOR_FAILED, startedAt, durationMs });
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
}

const CONNECTOR_FAILED: DeliveryResult = { outcome: 'retry', reason: 'the connector failed' };
const NOT_FOUND: Unreachable = { unreachable: 'the connector failed', forGood: false };
const ONE_BY_ONE: BatchLimits = { events: 1 };
