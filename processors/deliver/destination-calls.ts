import {
  type BatchLimits,
  type BreakerOptions,
  type Clock,
  type Crowd,
  type DeliveryResult,
  type HealthReport,
  HealthTally,
  type Ladder,
  type Logger,
  type Metrics,
  messageOf,
  type Turn,
  turnOf,
} from '@tributary/core';
import { gather } from './batch.ts';
import { type Call, isGone, keptFromGone, readable, resultsOf, tellResults, type Waiting } from './call.ts';
import { type Ahead, CallTimes } from './call-times.ts';
import { type CallLimits, Gate } from './gate.ts';
import type { Target, Targets, Unreachable } from './target.ts';

export interface DestinationCallsOptions {
  readonly clock: Clock;
  /** Ms that never go back. */
  readonly elapsed: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly breaker: BreakerOptions;
  readonly ladder: Ladder;
  /** What calls to a destination are held to by this process, as it is configured now. */
  limitsOf(id: string): CallLimits;
  /** Whether this process is what others wait for. */
  overloaded(): boolean;
  /** Called when this version of a destination answered that it is gone for good. */
  noteGone(id: string, version: number): void;
}

/** What is told of a destination, but for who tells it. */
export type DestinationReport = Omit<HealthReport, 'workspace_id' | 'process'>;

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
  /** What waits here, for lanes. */
  readonly crowd: Crowd;
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

  constructor(options: DestinationCallsOptions, targets: Pick<Targets, 'id' | 'now'>) {
    this.#options = options;
    this.#targets = targets;
    this.crowd = { waitMs: () => this.expectedWaitMs(false), overloaded: options.overloaded };
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

  /** Whether a call could begin, and waits only for more to share it. */
  get isHeldOpen(): boolean {
    return this.#isHeldOpen;
  }

  /** One attempt, told to who asks. */
  attempt(waiting: Waiting): void {
    this.#usedAt = this.#options.elapsed();
    waiting.since = this.#usedAt;
    this.#waiting.add(waiting);
    this.#flushSoon();
  }

  /** Nobody waits for it any more. A call is aborted once that is so for all that it carries. */
  leave(waiting: Waiting): void {
    this.#waiting.delete(waiting);
    const { call } = waiting;
    waiting.call = undefined;
    if (call === undefined) return;
    call.awaited -= 1;
    if (call.awaited === 0) call.controller.abort();
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
      this.#begin(batch, target, limits);
    }
    // Whoever comes now is behind nobody.
    this.#horizon = 0;
  }

  #refuseAll(refusal: Unreachable | 'circuit open'): void {
    const refused = [...this.#waiting];
    this.#waiting.clear();
    for (const waiting of refused) {
      waiting.begun();
      waiting.attempted(refusal);
    }
  }

  /**
   * As the connector says, but a batch is held open no longer than the shortest retry topic takes: others wait behind
   * the head of a lane.
   */
  #batchLimits({ connector, destination }: Target): BatchLimits {
    const limits = this.#guarded<BatchLimits>(() => connector.batchLimits(destination), ONE_BY_ONE);
    return { ...limits, ms: Math.min(limits.ms ?? 0, this.#options.ladder[0].ms) };
  }

  #begin(gathered: readonly Waiting[], target: Target, limits: CallLimits): void {
    const { clock, elapsed } = this.#options;
    for (const waiting of gathered) {
      this.#waiting.delete(waiting);
      waiting.begun();
    }
    const batch = readable(gathered.filter((waiting) => !waiting.isStopped()));
    if (batch.length === 0) return;
    const call: Call = {
      batch,
      target,
      limits,
      awaited: batch.length,
      controller: new AbortController(),
      startedAt: clock(),
      began: elapsed(),
    };
    for (const waiting of batch) waiting.call = call;
    this.#calls.add(call);
    this.#gate.begun(limits, call.began);
    void this.#make(call);
  }

  async #make(call: Call): Promise<void> {
    const { batch, limits, startedAt, began, controller } = call;
    const answered = await resultsOf(call, this.#tell);
    const gone = answered.some((result) => isGone(result, call.target.type));
    const results = gone ? keptFromGone(answered) : answered;
    const ended = this.#options.elapsed();
    this.#calls.delete(call);
    this.#usedAt = ended;
    const durationMs = ended - began;
    if (!controller.signal.aborted) {
      this.#gate.ended(results, limits, began, ended);
      this.#times.ended(durationMs, batch.length);
      this.#note(call, results, durationMs, ended);
    }
    if (gone) this.#options.noteGone(this.#targets.id, call.target.destination.version);
    tellResults(batch, results, { startedAt, durationMs });
    this.#flush();
  }

  /** Most calls have one result for all that they carry. */
  #note({ target }: Call, results: readonly DeliveryResult[], durationMs: number, ended: number): void {
    const { metrics, clock } = this.#options;
    const connector = target.type;
    metrics.observe('tributary_delivery_request_duration_seconds', durationMs / 1_000, { connector });
    let from = 0;
    for (let to = 1; to <= results.length; to++) {
      const result = results[from];
      if (result === undefined || (to < results.length && results[to] === result)) continue;
      this.#tally.attempted(result, durationMs, clock(), ended, to - from);
      metrics.count('tributary_deliveries_total', { outcome: result.outcome, connector }, to - from);
      from = to;
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

  readonly #tell = (error: unknown): void => {
    const about = { destination: this.#targets.id, error: messageOf(error) };
    this.#options.logger.error(about, 'a connector threw instead of answering');
  };
}

const NOT_FOUND: Unreachable = { unreachable: 'the connector failed', forGood: false };
const ONE_BY_ONE: BatchLimits = { events: 1 };
