import {
  type BatchLimits,
  type Clock,
  type DeliveryResult,
  hasEvent,
  type Logger,
  type Metrics,
  messageOf,
  type RetrySchedule,
  type Tracing,
} from '@tributary/core';
import {
  type QueuePressure,
  type Slowness,
  slownessAfter,
  WAIT_FACTOR,
} from '../fairness/partition-windows.ts';
import type { Timeout, TimeoutWheel } from '../fairness/waits.ts';
import type { BreakerOptions } from './admission.ts';
import {
  Admission,
  BACKOFF_MS,
  DOUBLED_AFTER_MS,
  MAX_RETRY_AFTER_MS,
  type RequestLimits,
} from './admission.ts';
import { type QueueLoad, scheduleSlot, WaitEstimate } from './deferral.ts';
import type { DeliveryReads } from './delivery-reads.ts';
import type { DivertedSubjects } from './destination-registry.ts';
import type { DestinationResolver, Target } from './destination-request.ts';
import {
  type Attempt,
  answered410,
  CONNECTOR_FAILED,
  cancelled,
  type DeliveryQueue,
  type DestinationRequest,
  failedIfRefusedAgain,
  gather,
  type QueueItem,
  resultsOf,
  retriedIfAnswered410,
} from './destination-request.ts';
import type { DestinationReport } from './health.ts';
import { type HealthCounts, HealthTally } from './health.ts';
import { isThrottled, wasSent } from './outcome.ts';

export interface QueueOptions {
  readonly clock: Clock;
  /** Ms of a monotonic clock. */
  readonly elapsed: Clock;
  /** See `waitClock`: for what counts as a destination's slowness. */
  readonly waited: Clock;
  /** By `waited`. */
  readonly timeouts: TimeoutWheel;
  /** A request that takes longer makes its destination slow, and so does a wait for its rate; ms by `waited`. */
  readonly slowAfterMs: number;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent: no spans are recorded. */
  readonly tracing?: Tracing | undefined;
  readonly breaker: BreakerOptions;
  readonly schedule: RetrySchedule;
  /** Limits of this process on its requests to a destination, as configured now. */
  limitsOf(id: string): RequestLimits;
  /** Reads events that deliveries refer to. */
  readonly reads: Pick<DeliveryReads, 'withEvent'>;
  /** Reports that this version of a destination answered 410 Gone. */
  noteAnswered410(id: string, version: number): void;
}

/** Interval in which the waits of queued deliveries are checked, ms. */
const CHECK_MS = 50;

/**
 * The queue of one destination and its requests: a bounded number at a time and a second, none while the circuit is open, and
 * one at a time of each subject, so that its deliveries arrive in the order in which they were queued. A request carries as
 * many deliveries as the connector takes and as were queued in one turn of the event loop, or for as long as the connector asks
 * to keep a batch open, or while all requests were busy. The destination is resolved when a request begins.
 */
export class DestinationQueue implements DeliveryQueue, QueuePressure {
  readonly #options: QueueOptions;
  readonly #resolver: Pick<DestinationResolver, 'id' | 'resolve'>;
  readonly #admission: Admission;
  readonly #estimate = new WaitEstimate();
  readonly #tally: HealthTally;
  /** When requests took long last. */
  #slowness: Slowness | undefined;
  /** Requests under way that take long. */
  #slowRequests = 0;
  /** Oldest first, once it is sorted. */
  #queued = new Set<QueueItem>();
  #isSorted = true;
  /** Under way, oldest first. */
  readonly #requests = new Set<DestinationRequest>();
  /** Those by the keys of the deliveries that they carry. */
  readonly #underWay = new Map<string, DestinationRequest>();
  readonly #diverted: DivertedSubjects;
  #willFlush = false;
  #check: Timeout | undefined;
  #laterFlush: { readonly timer: NodeJS.Timeout; readonly at: number } | undefined;
  /** Whether a request could begin, and waits only for more deliveries to carry. */
  #isBatchOpen = false;
  #usedAt: number;
  /** When the destination last accepted a delivery, epoch ms. */
  #acceptedAt = Number.NEGATIVE_INFINITY;
  /** Behind the slots of all deferred deliveries, epoch ms. */
  #queueTail = 0;

  /** `diverted`, `counts`: shared with other queues of the destination. */
  constructor(
    options: QueueOptions,
    resolver: Pick<DestinationResolver, 'id' | 'resolve'>,
    diverted: DivertedSubjects,
    counts?: HealthCounts,
  ) {
    this.#options = options;
    this.#resolver = resolver;
    this.#diverted = diverted;
    this.#usedAt = options.elapsed();
    this.#admission = new Admission(options.breaker, this.#usedAt);
    this.#tally = new HealthTally(this.#usedAt, counts);
  }

  /**
   * Queues deliveries for one attempt; it is `not-begun` where no request begins within the wait, and fails with `Unavailable` for
   * a cancelled one. Requests begin once `flushing` calls back: by default at the end of this turn of the event loop, so that
   * deliveries that are queued together share requests.
   */
  enqueue(items: readonly QueueItem[], flushing: (flush: () => void) => void = setImmediate): void {
    const [now, waitedFrom] = [this.#options.elapsed(), this.#options.waited()];
    this.#usedAt = now;
    for (const item of items) {
      if (item.isCancelled) {
        item.fail(cancelled());
        continue;
      }
      item.enqueuedAt = now;
      item.waitedFrom = waitedFrom;
      this.#queued.add(item);
    }
    this.#checkLater();
    this.#flushSoon(flushing);
  }

  /**
   * As `enqueue`, for a delivery that its destination has just refused for its rate: at its place by the time it was queued
   * first, and for the rest of its wait. False where it alone is to wait for longer than that.
   */
  enqueueAgain(item: QueueItem): boolean {
    const { elapsed, limitsOf, timeouts } = this.#options;
    const now = elapsed();
    const leftMs = item.wait.ms - this.#waitedFor(item);
    const aloneMs = item.notBefore - now;
    if (aloneMs > Math.max(leftMs, BACKOFF_MS)) return false;
    const rateWaitMs = this.#admission.rateWaitMs(limitsOf(this.#resolver.id), now);
    const queueAgain = () => {
      this.#queued.add(item);
      this.#isSorted = false;
      this.#checkLater();
      this.#flushSoon();
    };
    if (item.isCancelled) item.fail(cancelled());
    else if (leftMs <= 0 || rateWaitMs > leftMs) item.settle({ kind: 'not-begun' });
    // In steps: timeouts are kept by their duration.
    else if (aloneMs > 0)
      item.aloneTimeout = timeouts.start(Math.ceil(aloneMs / BACKOFF_MS) * BACKOFF_MS, queueAgain);
    else queueAgain();
    return true;
  }

  /** Cancels a delivery: nothing waits for it any more. */
  cancel(item: QueueItem): void {
    this.#queued.delete(item);
    const { request } = item;
    item.cancel();
    if (request?.controller.signal.aborted !== true) return;
    this.#release(request);
    this.#flushSoon();
  }

  /**
   * How long a delivery that comes now would wait for the destination until its request begins, ms. 0 while the circuit is open:
   * none is made.
   */
  waitMs(): number {
    return this.#admission.isOpen(this.#options.elapsed()) ? 0 : this.#estimate.waitMs(this.#load());
  }

  /**
   * Whether deliveries belong into the slow queue: a request takes long, or did a while ago, or the rate holds the next one back
   * for long.
   */
  isSlow(): boolean {
    if (this.#slowRequests > 0) return true;
    const { elapsed, limitsOf, slowAfterMs } = this.#options;
    const now = elapsed();
    if (this.#slowness !== undefined && now < this.#slowness.until) return true;
    const rateWaitMs = this.#admission.rateWaitMs(limitsOf(this.#resolver.id), now);
    return rateWaitMs > slowAfterMs && !this.#admission.isOpen(now);
  }

  /**
   * When a delivery that is to be deferred is expected to be sent, epoch ms. It has been deferred since `since`, with this
   * slot; the destination asked to wait `until` then.
   */
  slotFor(since: number, slot: number | undefined, until?: number): number {
    const { at, queueTail } = scheduleSlot({
      now: this.#options.clock(),
      ...this.#estimate.usual(this.#load()),
      queueTail: this.#queueTail,
      slot,
      since,
      until,
    });
    this.#queueTail = queueTail;
    return at;
  }

  /** Until when the destination asked for no request, epoch ms; undefined where it did not. */
  heldUntil(): number | undefined {
    const { clock, elapsed } = this.#options;
    const heldMs = this.#admission.heldMs(elapsed());
    return heldMs > 0 ? clock() + heldMs : undefined;
  }

  /** The interval in which the destination collects deliveries for its batches, ms; 0 where a batch is kept open for that. */
  intervalMs(): number {
    const target = this.#resolver.resolve();
    const { ms = 0 } = target.kind === 'target' ? this.#batchLimits(target) : {};
    return ms > this.#options.schedule[0].ms ? ms : 0;
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

  /** The id of the destination. */
  get id(): string {
    return this.#resolver.id;
  }

  /** The health of the destination, as seen by this process. */
  health(): DestinationReport {
    const [now, elapsed] = [this.#options.clock(), this.#options.elapsed()];
    const [oldest] = this.#queued;
    const { kind, since } = this.#admission.circuit(elapsed);
    const pace = this.#admission.learnedPace();
    return {
      destination_id: this.#resolver.id,
      at: now,
      ...this.#tally.tallied(elapsed),
      ...(pace === undefined ? {} : { pace }),
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
      oldestRequestMs: oldest === undefined ? 0 : this.#waitedFor(oldest),
      // Not that of a start or a probe, which ends long before a wait that is estimated by it.
      concurrency: limits.maxConcurrency,
      perSecond: this.#admission.perSecond(limits),
      rateWaitMs: this.#admission.rateWaitMs(limits, now),
    };
  }

  #checkLater(): void {
    if (this.#queued.size === 0) return;
    this.#check ??= this.#options.timeouts.start(CHECK_MS, () => {
      this.#check = undefined;
      this.#leaveLate();
      this.#checkLater();
    });
  }

  /**
   * Ends the waits that are over. A delivery of a quick stage may wait several times as long for earlier ones of a destination that
   * is not slow.
   */
  #leaveLate(): void {
    const isSlow = this.isSlow();
    for (const item of this.#queued) {
      const { ms, mayWaitInOpenBatch } = item.wait;
      const waitedMs = this.#waitedFor(item);
      if (waitedMs < ms) continue;
      const isBurst = item.isQuick && !isSlow && waitedMs < ms * WAIT_FACTOR;
      if (!(this.#isBatchOpen ? mayWaitInOpenBatch : isBurst)) this.#notBegun(item);
    }
  }

  #waitedFor({ waitedFrom }: DestinationRequest | QueueItem): number {
    return this.#options.waited() - waitedFrom;
  }

  /** A request takes long: its deliveries and those that wait in quick stages leave for the slow queue. */
  #foundSlow(request: DestinationRequest): void {
    this.#slowRequests += 1;
    this.#slowness = slownessAfter(this.#slowness, request.began, this.#options.elapsed());
    for (const item of request.batch) if (item.request === request) item.attempts.tookLong(item);
    for (const item of this.#queued) if (item.isQuick) this.#notBegun(item);
  }

  #notBegun(item: QueueItem): void {
    this.#queued.delete(item);
    if (item.isQuick) this.#diverted.add(item.key);
    item.settle({ kind: 'not-begun' });
  }

  #flushSoon(flushing: (flush: () => void) => void = setImmediate): void {
    if (this.#willFlush) return;
    this.#willFlush = true;
    flushing(() => {
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
    if (!this.#isSorted) {
      this.#queued = new Set([...this.#queued].sort((a, b) => a.enqueuedAt - b.enqueuedAt));
      this.#isSorted = true;
    }
    while (this.#queued.size > 0) if (!this.#beginNext()) return;
    // The queue is empty: the next deferred delivery is not scheduled behind earlier ones.
    this.#queueTail = 0;
  }

  /** Begins a request, or ends the attempts of all queued deliveries where none can be made. False: not now. */
  #beginNext(): boolean {
    const now = this.#options.elapsed();
    if (this.#admission.isOpen(now)) return this.#settleQueued({ kind: 'circuit-open' });
    const limits = this.#options.limitsOf(this.#resolver.id);
    const concurrency = this.#admission.concurrency(limits, now);
    if (this.#requests.size >= concurrency)
      return concurrency < limits.maxConcurrency ? this.#flushLater(DOUBLED_AFTER_MS) : false;
    const rateWaitMs = this.#admission.rateWaitMs(limits, now);
    if (rateWaitMs > 0) return this.#flushLater(rateWaitMs);
    const target = this.#resolver.resolve();
    if (target.kind !== 'target') return this.#settleQueued(target);
    const { batch, waitMs } = gather(this.#next(), this.#openBatchLimits(target), now);
    if (batch.length === 0) return false;
    this.#isBatchOpen = waitMs > 0;
    if (this.#isBatchOpen) return this.#flushLater(waitMs);
    this.#begin(batch, target, limits);
    return true;
  }

  /** After a refusal those that were not refused come first: what is refused may be one of the others, and always. */
  #next(): Iterable<QueueItem> {
    if (!this.#admission.isRefused()) return this.#inOrder();
    const queued = [...this.#inOrder()];
    const others = queued.filter((item) => !item.isRefused);
    return others.length > 0 ? others : queued;
  }

  /** The queued deliveries without those that wait for an earlier one of their subject, under way or in the slow queue. */
  *#inOrder(): Iterable<QueueItem> {
    for (const item of this.#queued) {
      if (this.#underWay.has(item.key)) continue;
      if (item.isQuick && this.#diverted.has(item.key)) this.#notBegun(item);
      else yield item;
    }
  }

  #settleQueued(attempt: Attempt): false {
    const queued = [...this.#queued];
    this.#queued.clear();
    for (const item of queued) item.settle(attempt);
    return false;
  }

  /** A batch is kept open no longer than the shortest retry step takes: other records wait behind the delivery. */
  #openBatchLimits(target: Target): BatchLimits {
    const limits = this.#batchLimits(target);
    return { ...limits, ms: Math.min(limits.ms ?? 0, this.#options.schedule[0].ms) };
  }

  #batchLimits({ connector, destination }: Target): BatchLimits {
    try {
      return connector.batchLimits(destination);
    } catch (error) {
      // Not rethrown: in this timer callback it would end the process.
      this.#report(error);
      return { events: 1 };
    }
  }

  #begin(gathered: readonly QueueItem[], target: Target, limits: RequestLimits): void {
    const { clock, elapsed, waited, timeouts, slowAfterMs } = this.#options;
    for (const item of gathered) this.#queued.delete(item);
    const batch = gathered.filter((item) => !isStopped(item));
    if (batch.length === 0) return;
    const request: DestinationRequest = {
      ...this.#admission.requestBegan(limits, elapsed()),
      batch,
      keys: new Set(batch.map(({ key }) => key)),
      target,
      awaited: batch.length,
      controller: new AbortController(),
      startedAt: clock(),
      waitedFrom: waited(),
      slowTimeout: timeouts.start(slowAfterMs, () => this.#foundSlow(request)),
    };
    for (const item of batch) item.request = request;
    this.#requests.add(request);
    for (const key of request.keys) this.#underWay.set(key, request);
    const send = () => void this.#send(request);
    // The delivery that began the flush may be another one.
    if (this.#options.tracing === undefined) send();
    else this.#options.tracing.outside(send);
  }

  async #send(request: DestinationRequest): Promise<void> {
    if (request.batch.some(({ delivery }) => !hasEvent(delivery)) && !(await this.#readEvents(request)))
      return;
    const { batch, target, startedAt, began, controller } = request;
    const answered = await resultsOf(request, this.#report, this.#options.tracing);
    const has410 = answered.some((result) => answered410(result, target.type));
    const answers = has410 ? retriedIfAnswered410(answered, target.type) : answered;
    const results = failedIfRefusedAgain(answers, batch, this.#acceptedAt);
    const ended = this.#options.elapsed();
    this.#remove(request, ended);
    const durationMs = ended - began;
    // An aborted request is no sign of the destination's health.
    if (!controller.signal.aborted) {
      const sent = answers.filter(wasSent);
      if (sent.some(({ outcome }) => outcome !== 'retry')) this.#acceptedAt = this.#options.clock();
      const aboutRate = answers.filter(
        (answer, at) => wasSent(answer) && (!isThrottled(answer) || answer === results[at]),
      );
      const isAlone =
        sent.length > 0
          ? this.#admission.requestEnded(aboutRate, request, ended)
          : this.#admission.nothingSent(ended);
      for (const [at, item] of batch.entries())
        item.notBefore = isAlone ? ended + aloneWaitMs(results[at]) : 0;
      if (sent.length > 0) this.#estimate.requestEnded(this.#waitedFor(request), batch.length);
      this.#count(request, results, durationMs, ended);
    }
    if (has410) this.#options.noteAnswered410(this.#resolver.id, target.destination.version);
    batch.forEach((item, at) => {
      const result = results[at] ?? CONNECTOR_FAILED;
      if (item.request === request) item.settle({ kind: 'answered', result, startedAt, durationMs });
    });
    this.#flush();
  }

  /**
   * Reads the events that deliveries of the request refer to. Those without an event, those that their rule stops, and those
   * that cannot be read now leave the request. False where it carries none any more.
   */
  async #readEvents(request: DestinationRequest): Promise<boolean> {
    const read = async (item: QueueItem) => {
      try {
        const delivery = await this.#options.reads.withEvent(item.delivery);
        if (delivery === undefined) item.settle({ kind: 'no-event' });
        else if (delivery !== item.delivery) {
          item.loaded = delivery;
          isStopped(item);
        }
      } catch (error) {
        item.fail(error);
      }
    };
    await Promise.all(request.batch.map(read));
    request.batch = request.batch.filter((item) => item.request === request);
    request.awaited = request.batch.length;
    if (request.batch.length > 0) return true;
    this.#remove(request, this.#options.elapsed());
    this.#flush();
    return false;
  }

  #remove(request: DestinationRequest, now: number): void {
    this.#requests.delete(request);
    if (request.slowTimeout.isOver) this.#slowRequests -= 1;
    else request.slowTimeout.cancel();
    this.#release(request);
    this.#usedAt = now;
  }

  /** Lets the next deliveries of its subjects go. */
  #release(request: DestinationRequest): void {
    for (const key of request.keys) if (this.#underWay.get(key) === request) this.#underWay.delete(key);
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
      if (wasSent(result)) this.#tally.attempted(result, durationMs, clock(), ended, times);
      const outcome = isThrottled(result) ? 'throttled' : result.outcome;
      metrics.count('tributary_deliveries_total', { outcome, connector }, times);
    }
  }

  readonly #report = (error: unknown): void => {
    const about = { destination: this.#resolver.id, error: messageOf(error) };
    this.#options.logger.error(about, 'a connector threw instead of answering');
  };
}

/** How long a delivery waits that was refused for its rate while others were accepted. */
function aloneWaitMs(result: DeliveryResult | undefined): number {
  if (result === undefined || !isThrottled(result)) return 0;
  const askedMs = result.outcome === 'retry' ? (result.afterMs ?? 0) : 0;
  return Math.min(Math.max(askedMs, BACKOFF_MS), MAX_RETRY_AFTER_MS);
}

/** Ends the attempt of a delivery whose rule would not make it any more. */
function isStopped(item: QueueItem): boolean {
  try {
    const reason = item.attempts.stopReason(item);
    if (reason === undefined) return false;
    item.settle({ kind: 'stopped', reason });
  } catch (error) {
    item.fail(error);
  }
  return true;
}
