import {
  type BatchLimits,
  type Clock,
  type DeliveryResult,
  type Logger,
  type Metrics,
  messageOf,
  type RetrySchedule,
  type Tracing,
} from '@tributary/core';
import type { QueuePressure } from '../fairness/fair-share-window.ts';
import type { Timeout, TimeoutWheel } from '../fairness/timeout-wheel.ts';
import {
  type Attempt,
  answered410,
  CONNECTOR_FAILED,
  cancelled,
  type DestinationRequest,
  gather,
  type QueueItem,
  resultsOf,
  retriedIfAnswered410,
} from './destination-request.ts';
import type { DestinationResolver, Target } from './destination-resolver.ts';
import type { DestinationReport } from './health/reporter.ts';
import { type HealthCounts, HealthTally } from './health/tally.ts';
import { Admission, type RequestLimits } from './policy/admission.ts';
import type { BreakerOptions } from './policy/circuit-breaker.ts';
import { type QueueLoad, type ScheduledSlot, scheduleSlot, WaitEstimate } from './policy/deferral.ts';

export interface QueueOptions {
  readonly clock: Clock;
  /** Ms of a monotonic clock. */
  readonly elapsed: Clock;
  readonly timeouts: TimeoutWheel;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent: no spans are recorded. */
  readonly tracing?: Tracing | undefined;
  readonly breaker: BreakerOptions;
  readonly schedule: RetrySchedule;
  /** Limits of this process on its requests to a destination, as configured now. */
  limitsOf(id: string): RequestLimits;
  /** Whether this process has more to do than it can. */
  saturated(): boolean;
  /** Reports that this version of a destination answered 410 Gone. */
  noteAnswered410(id: string, version: number): void;
}

/** How long a delivery may wait for its request to begin. */
export interface QueueWait {
  readonly ms: number;
  /** Whether it may wait for longer in a batch that is kept open for more deliveries. */
  readonly mayWaitInOpenBatch: boolean;
}

/**
 * While this process is saturated, shorter requests than this, in ms, do not count as a cause of waiting: then it is the
 * process that is slow, not the destination.
 */
const OWN_FAULT_MS = 2_000;

/** Deferred deliveries are recalled while less work than this is queued for their destination, ms: a recall takes less. */
const RECALL_BELOW_MS = 2_000;
/** A recalled delivery is expected in the queue within this time, ms. */
const RECALLED_MS = 1_000;

/**
 * The queue of one destination and its requests: a bounded number at a time and a second, and none while the circuit is
 * open. A request carries as many deliveries as the connector takes and as were queued in one turn of the event loop, or
 * for as long as the connector asks to keep a batch open, or while all requests were busy. The destination is resolved
 * when a request begins.
 */
export class DestinationQueue {
  readonly #options: QueueOptions;
  readonly #resolver: Pick<DestinationResolver, 'id' | 'resolve'>;
  /** For the fair-share windows. */
  readonly pressure: QueuePressure;
  readonly #admission: Admission;
  readonly #estimate = new WaitEstimate();
  readonly #tally: HealthTally;
  readonly #queued = new Set<QueueItem>();
  /** Under way, oldest first. */
  readonly #requests = new Set<DestinationRequest>();
  #willFlush = false;
  #laterFlush: { readonly timer: NodeJS.Timeout; readonly at: number } | undefined;
  /** Whether a request could begin, and waits only for more deliveries to carry. */
  #isBatchOpen = false;
  #usedAt: number;
  /** Behind the slots of all deferred deliveries, epoch ms. */
  #queueTail = 0;
  /** Deliveries that may have been recalled and not come yet. */
  #recalled = { since: 0, count: 0 };

  /** `counts`: shared with other queues of the destination. */
  constructor(
    options: QueueOptions,
    resolver: Pick<DestinationResolver, 'id' | 'resolve'>,
    counts?: HealthCounts,
  ) {
    this.#options = options;
    this.#resolver = resolver;
    this.pressure = { waitMs: () => this.waitMs(), saturated: options.saturated };
    this.#usedAt = options.elapsed();
    this.#admission = new Admission(options.breaker, this.#usedAt);
    this.#tally = new HealthTally(this.#usedAt, counts);
  }

  /**
   * Queues a delivery and resolves to the end of one attempt; `not-begun` where no request began within the wait.
   * Rejects with `Unavailable` once the item is cancelled.
   */
  attempt(item: QueueItem, wait: QueueWait): Promise<Attempt> {
    if (item.isCancelled) return Promise.reject(cancelled());
    this.#usedAt = this.#options.elapsed();
    item.enqueuedAt = this.#usedAt;
    item.timeout = this.#startTimeout(item, wait);
    this.#queued.add(item);
    this.#flushSoon();
    return item.attempt();
  }

  /** Cancels a delivery: nothing waits for it any more. */
  cancel(item: QueueItem): void {
    this.#queued.delete(item);
    item.cancel();
  }

  /** How long a delivery that comes now would wait for its request, ms. 0 while the circuit is open: none is made. */
  waitMs(): number {
    const load = this.#load();
    return this.#admission.isOpen(this.#options.elapsed()) ? 0 : this.#estimate.waitMs(load);
  }

  /** The part of that wait that is the destination's doing, and not that of this saturated process. */
  waitForDestinationMs(): number {
    const load = this.#load();
    if (this.#admission.isOpen(this.#options.elapsed())) return 0;
    const isOwnFault =
      this.#options.saturated() && this.#estimate.requestMs(load.oldestRequestMs) < OWN_FAULT_MS;
    return this.#estimate.waitMs(load, isOwnFault);
  }

  /** Schedules a delivery that is to be deferred; `before` is the slot it has already. */
  schedule(before: number | undefined): ScheduledSlot {
    const { clock, schedule } = this.#options;
    const load = this.#load();
    const slot = scheduleSlot({
      now: clock(),
      waitMs: this.#estimate.waitMs(load),
      eachMs: this.#estimate.eachMs(load),
      queueTail: this.#queueTail,
      slot: before,
      schedule,
    });
    this.#queueTail = slot.queueTail;
    return slot;
  }

  /**
   * Whether a deferred delivery may come before its slot: so little is queued for the destination that it would soon be
   * idle. True promises room for one delivery. Only one is recalled until the duration of requests is known.
   */
  recall(): boolean {
    const now = this.#options.elapsed();
    if (this.#admission.circuit(now).kind !== 'closed') return false;
    if (now - this.#recalled.since > RECALLED_MS) this.#recalled = { since: now, count: 0 };
    const load = this.#load();
    const queued = load.queued + this.#recalled.count;
    if (this.#estimate.waitMs({ ...load, queued }) > (this.#estimate.isKnown ? RECALL_BELOW_MS : 0))
      return false;
    this.#recalled.count += 1;
    return true;
  }

  /** Counts a delivery that was deferred or postponed without an attempt. */
  noteNotAttempted(): void {
    this.#tally.noteNotAttempted(this.#options.elapsed());
  }

  /** How long the circuit has admitted probes only, ms. */
  circuitOpenMs(): number {
    const now = this.#options.elapsed();
    const { kind, since } = this.#admission.circuit(now);
    return kind === 'closed' ? 0 : now - since;
  }

  /** How long nothing was queued or under way, ms; 0 while the destination asks to wait. */
  idleMs(): number {
    const { elapsed, limitsOf } = this.#options;
    const isRateLimited = this.#admission.rateWaitMs(limitsOf(this.#resolver.id), elapsed()) > 0;
    if (isRateLimited || this.#requests.size > 0 || this.#queued.size > 0) return 0;
    return elapsed() - this.#usedAt;
  }

  /** The health of the destination, as seen by this process. */
  health(): DestinationReport {
    const [now, elapsed] = [this.#options.clock(), this.#options.elapsed()];
    const [oldest] = this.#queued;
    const { kind, since } = this.#admission.circuit(elapsed);
    return {
      destination_id: this.#resolver.id,
      at: now,
      ...this.#tally.tallied(elapsed),
      waiting: this.#queued.size,
      under_way: [...this.#requests].reduce((sum, { batch }) => sum + batch.length, 0),
      oldest_waiting_at: oldest === undefined ? null : Math.round(now - (elapsed - oldest.enqueuedAt)),
      circuit: kind,
      circuit_since: Math.round(now - (elapsed - since)),
    };
  }

  #load(): QueueLoad {
    const now = this.#options.elapsed();
    const limits = this.#options.limitsOf(this.#resolver.id);
    const [oldest] = this.#requests;
    return {
      queued: this.#queued.size,
      requests: this.#requests.size,
      oldestRequestMs: oldest === undefined ? 0 : now - oldest.began,
      concurrency: this.#admission.concurrency(limits, now),
      perSecond: limits.perSecond,
      rateWaitMs: this.#admission.rateWaitMs(limits, now),
    };
  }

  #startTimeout(item: QueueItem, wait: QueueWait): Timeout {
    return this.#options.timeouts.start(wait.ms, () => {
      if (wait.mayWaitInOpenBatch && this.#isBatchOpen) item.timeout = this.#startTimeout(item, wait);
      else if (this.#queued.delete(item)) item.settle({ kind: 'not-begun' });
    });
  }

  /** At the end of this turn of the event loop, so that deliveries that the log dispatches together share requests. */
  #flushSoon(): void {
    if (this.#willFlush) return;
    this.#willFlush = true;
    setImmediate(() => {
      this.#willFlush = false;
      this.#flush();
    });
  }

  #flushLater(ms: number): false {
    const at = this.#options.elapsed() + ms;
    if (this.#laterFlush !== undefined && this.#laterFlush.at <= at) return false;
    clearTimeout(this.#laterFlush?.timer);
    const timer = setTimeout(() => {
      this.#laterFlush = undefined;
      this.#flush();
    }, ms).unref();
    this.#laterFlush = { timer, at };
    return false;
  }

  /** Begins as many requests as may begin now. */
  #flush(): void {
    this.#isBatchOpen = false;
    while (this.#queued.size > 0) if (!this.#beginNext()) return;
    // The queue is empty: the next deferred delivery is not scheduled behind earlier ones.
    this.#queueTail = 0;
  }

  /** Begins a request, or ends the attempts of all queued deliveries where none can be made. False: not now. */
  #beginNext(): boolean {
    const now = this.#options.elapsed();
    if (this.#admission.isOpen(now)) return this.#settleQueued({ kind: 'circuit-open' });
    const limits = this.#options.limitsOf(this.#resolver.id);
    if (this.#requests.size >= this.#admission.concurrency(limits, now)) return false;
    const rateWaitMs = this.#admission.rateWaitMs(limits, now);
    if (rateWaitMs > 0) return this.#flushLater(rateWaitMs);
    const target = this.#resolver.resolve();
    if (target.kind !== 'target') return this.#settleQueued(target);
    const { batch, waitMs } = gather(this.#queued, this.#batchLimits(target), now);
    this.#isBatchOpen = waitMs > 0;
    if (this.#isBatchOpen) return this.#flushLater(waitMs);
    this.#begin(batch, target, limits);
    return true;
  }

  #settleQueued(attempt: Attempt): false {
    const queued = [...this.#queued];
    this.#queued.clear();
    for (const item of queued) item.settle(attempt);
    return false;
  }

  /** A batch is kept open no longer than the shortest retry step takes: other records wait behind the delivery. */
  #batchLimits({ connector, destination }: Target): BatchLimits {
    const atMostMs = this.#options.schedule[0].ms;
    try {
      const limits = connector.batchLimits(destination);
      return { ...limits, ms: Math.min(limits.ms ?? 0, atMostMs) };
    } catch (error) {
      // Not rethrown: in this timer callback it would end the process.
      this.#report(error);
      return { events: 1 };
    }
  }

  #begin(gathered: readonly QueueItem[], target: Target, limits: RequestLimits): void {
    const { clock, elapsed } = this.#options;
    for (const item of gathered) {
      this.#queued.delete(item);
      item.timeout?.cancel();
    }
    const batch = gathered.filter((item) => !isStopped(item));
    if (batch.length === 0) return;
    const request: DestinationRequest = {
      batch,
      target,
      limits,
      awaited: batch.length,
      controller: new AbortController(),
      startedAt: clock(),
      began: elapsed(),
    };
    for (const item of batch) item.request = request;
    this.#requests.add(request);
    this.#admission.requestBegan(limits, request.began);
    const send = () => void this.#send(request);
    // The delivery that began the flush may be another one.
    if (this.#options.tracing === undefined) send();
    else this.#options.tracing.outside(send);
  }

  async #send(request: DestinationRequest): Promise<void> {
    const { batch, target, limits, startedAt, began, controller } = request;
    const answered = await resultsOf(request, this.#report, this.#options.tracing);
    const has410 = answered.some((result) => answered410(result, target.type));
    const results = has410 ? retriedIfAnswered410(answered, target.type) : answered;
    const ended = this.#options.elapsed();
    this.#requests.delete(request);
    this.#usedAt = ended;
    const durationMs = ended - began;
    // An aborted request is no sign of the destination's health.
    if (!controller.signal.aborted) {
      this.#admission.requestEnded(results, limits, began, ended);
      this.#estimate.requestEnded(durationMs, batch.length);
      this.#count(request, results, durationMs, ended);
    }
    if (has410) this.#options.noteAnswered410(this.#resolver.id, target.destination.version);
    batch.forEach((item, at) => {
      const result = results[at] ?? CONNECTOR_FAILED;
      if (item.request === request) item.settle({ kind: 'answered', result, startedAt, durationMs });
    });
    this.#flush();
  }

  /** Deliveries with the same result object failed together: they count as one error. */
  #count(
    { target }: DestinationRequest,
    results: readonly DeliveryResult[],
    durationMs: number,
    ended: number,
  ): void {
    const { metrics, clock } = this.#options;
    const connector = target.type;
    metrics.observe('tributary_delivery_request_duration_seconds', durationMs / 1_000, { connector });
    const counts = new Map<DeliveryResult, number>();
    for (const result of results) counts.set(result, (counts.get(result) ?? 0) + 1);
    for (const [result, times] of counts) {
      this.#tally.attempted(result, durationMs, clock(), ended, times);
      metrics.count('tributary_deliveries_total', { outcome: result.outcome, connector }, times);
    }
  }

  readonly #report = (error: unknown): void => {
    const about = { destination: this.#resolver.id, error: messageOf(error) };
    this.#options.logger.error(about, 'a connector threw instead of answering');
  };
}

/** Ends the attempt of a delivery whose rule would not make it any more. */
function isStopped(item: QueueItem): boolean {
  try {
    const reason = item.stopReason();
    if (reason === undefined) return false;
    item.settle({ kind: 'stopped', reason });
  } catch (error) {
    item.fail(error);
  }
  return true;
}
