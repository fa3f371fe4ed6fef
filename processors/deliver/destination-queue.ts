import {
  type BatchLimits,
  type Catalog,
  type Clock,
  cancelledByRule,
  type DeliveryEnvelope,
  type DeliveryResult,
  type Destination,
  hasEvent,
  type Logger,
  type Metrics,
  messageOf,
  retryDelays,
  type StageContext,
  type Tracing,
  Unavailable,
} from '@tributary/core';
import { type Slowness, slownessAfter } from '../fairness/slowness.ts';
import type { Timeout, TimeoutWheel } from '../fairness/waits.ts';
import {
  Admission,
  type AdmittedRequest,
  BACKOFF_MS,
  type BreakerOptions,
  DOUBLED_AFTER_MS,
  MAX_RETRY_AFTER_MS,
  type RequestLimits,
} from './admission.ts';
import {
  collectingMs,
  collectingStep,
  deferralDelay,
  type QueueLoad,
  scheduleDeferral,
  TOGETHER_MS,
  WaitEstimate,
} from './deferral.ts';
import { type DeliveryReads, type DeliveryTask, isUntried } from './delivery-task.ts';
import {
  answered410,
  CONNECTOR_FAILED,
  DestinationResolver,
  failedIfRefusedAgain,
  type ResolverDependencies,
  retriedIfAnswered410,
  sendBatch,
  type Target,
} from './destination-request.ts';
import type { DivertedSubjects, InFlightRegistry } from './diverted-deliveries.ts';
import { type DestinationReport, type HealthCounts, HealthTally, type PauseReason } from './health.ts';
import { onAbort } from './on-abort.ts';
import {
  type AttemptEnd,
  afterAttempt,
  dead,
  isThrottled,
  type Outcome,
  type RetryPolicy,
  wasSent,
} from './outcome.ts';

export interface QueueDependencies extends ResolverDependencies, RetryPolicy {
  readonly catalog: Pick<Catalog, 'state'>;
  readonly clock: Clock;
  /** Ms of a monotonic clock. */
  readonly elapsed: Clock;
  /** See `waitClock`: for what counts as a destination's slowness. */
  readonly waited: Clock;
  /** By `waited`. */
  readonly timeouts: TimeoutWheel;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent: no spans are recorded. */
  readonly tracing?: Tracing | undefined;
  readonly breaker: BreakerOptions;
  /** Reads events that deliveries refer to. */
  readonly reads: Pick<DeliveryReads, 'withEvent'>;
}

/** A request that takes longer makes its destination slow, and so does a wait for its rate; ms by `waited`. */
export const SLOW_REQUEST_MS = 500;

/** Shared by the queues of a process. */
export interface SharedByQueues {
  readonly diverted: DivertedSubjects;
  readonly inFlight: InFlightRegistry;
  /** Limits of this process on its requests to a destination, as configured now. */
  limitsOf(id: string): RequestLimits;
  /** Requests to this version of a destination ended so that it is to be paused. */
  pause(id: string, version: number, reason: PauseReason): void;
}

/**
 * - `quick`: of a stage whose other records wait for it. It leaves for the slow queue, with the later deliveries of its subject,
 *   where no request begins in time, or its request takes long.
 * - `collecting`: the same for an untried delivery of a destination that collects deliveries for its batches; it leaves for the log.
 * - `patient`: of the slow stage, for a batch that is kept open for more deliveries, and for a request that takes long.
 */
type Lane = 'quick' | 'collecting' | 'patient';

/** A delivery that ends without an outcome. */
export interface Failed {
  readonly error: unknown;
}

/** A delivery in the queue of its destination, or in a request. */
export class QueueItem {
  readonly task: DeliveryTask;
  readonly destination: Destination;
  readonly context: StageContext;
  lane: Lane;
  /** How long it may wait for its request to begin, ms. 0: its window has no room for it. */
  waitMs: number;
  /** Called once. */
  onEnd: (outcome: Outcome | Failed) => void;
  /** With the attempts made so far. */
  delivery: DeliveryEnvelope;
  /** The same with its event, where that was read for the request. */
  loaded: DeliveryEnvelope | undefined;
  /** When it was queued first: ms of a monotonic clock, and of the clock of waits. */
  enqueuedAt = 0;
  waitedFrom = 0;
  /** Until when it waits for others in a batch that is not full, ms of a monotonic clock; undefined: as batches are kept open. */
  collectedUntil: number | undefined;
  request: DestinationRequest | undefined;
  /** While it waits because it was refused for its rate and others were accepted. */
  aloneTimeout: Timeout | undefined;
  /** Whether its attempt repeats the one before at once. */
  isRepeated = false;
  isOver = false;
  /** Ends its registration at the signal of its stage. */
  unregister = () => {};
  /** Whether its stage has gone on without it: the slow stage gets its outcome. */
  hasLeft = false;

  constructor(
    task: DeliveryTask,
    destination: Destination,
    context: StageContext,
    lane: 'quick' | 'patient',
    waitMs: number,
    onEnd: (outcome: Outcome | Failed) => void,
  ) {
    this.task = task;
    this.destination = destination;
    this.context = context;
    this.lane = lane;
    this.waitMs = waitMs;
    this.onEnd = onEnd;
    this.delivery = task.delivery;
  }

  /** Of its destination and subject: requests with one key follow each other. */
  get key(): string {
    return this.task.key;
  }

  get bytes(): number {
    return this.task.bytes;
  }

  /** Whether its last attempt was refused for its rate. */
  get isRefused(): boolean {
    return this.delivery.attempts.at(-1)?.throttled === true;
  }

  /** The delivery as the request carries it. */
  get sent(): DeliveryEnvelope {
    return this.loaded ?? this.delivery;
  }

  end(outcome: Outcome | Failed): void {
    this.leaveRequest();
    if (this.isOver) return;
    this.isOver = true;
    this.unregister();
    this.onEnd(outcome);
  }

  leaveRequest(): void {
    this.request = undefined;
    this.loaded = undefined;
    this.aloneTimeout?.cancel();
  }
}

/** One request to a destination, under way. */
interface DestinationRequest extends AdmittedRequest {
  batch: readonly QueueItem[];
  /** Of all deliveries with which it began. */
  readonly keys: ReadonlySet<string>;
  readonly target: Target;
  /** Deliveries of the batch that were not cancelled. */
  awaited: number;
  readonly controller: AbortController;
  /** Epoch ms. */
  readonly startedAt: number;
  /** When it began, by the clock of waits; ms. */
  readonly waitedFrom: number;
  /** Until it takes long. */
  readonly slowTimeout: Timeout;
}

/** Interval in which the waits of queued deliveries are checked, ms. */
const CHECK_MS = 50;

/** A delivery of a quick stage may wait so many times as long for earlier ones of a destination that is not slow: a burst is soon over. */
const WAIT_FACTOR = 10;

/**
 * The queue of one destination and its requests: a bounded number at a time and a second, none while the circuit is open, and
 * one at a time of each subject, so that its deliveries arrive in the order in which they were queued. A request carries as
 * many deliveries as the connector takes and as were queued in one turn of the event loop, or for as long as the connector asks
 * to keep a batch open, or while all requests were busy. The destination is resolved when a request begins.
 */
export class DestinationQueue {
  readonly id: string;
  readonly #dependencies: QueueDependencies;
  readonly #shared: SharedByQueues;
  readonly #resolver: DestinationResolver;
  readonly #admission: Admission;
  readonly #estimate = new WaitEstimate();
  readonly #tally: HealthTally;
  /** When requests took long last. */
  #slowness: Slowness | undefined;
  /** Requests under way that take long. */
  #slowRequests = 0;
  /** Deliveries that were queued in this turn of the event loop. */
  #arrived: QueueItem[] = [];
  /** Oldest first, once it is sorted. */
  #queued = new Set<QueueItem>();
  #isSorted = true;
  /** Under way, oldest first. */
  readonly #requests = new Set<DestinationRequest>();
  /** Those by the keys of the deliveries that they carry. */
  readonly #underWay = new Map<string, DestinationRequest>();
  #willFlush = false;
  #check: Timeout | undefined;
  #laterFlush: { readonly timer: NodeJS.Timeout; readonly at: number } | undefined;
  /** Whether a request could begin, and waits only for more deliveries to carry. */
  #isBatchOpen = false;
  /** Whether the connector threw when it was asked for its batch limits. */
  #areLimitsMissing = false;
  #usedAt: number;
  /** When the destination last accepted a delivery, epoch ms. */
  #acceptedAt = Number.NEGATIVE_INFINITY;
  /** Behind the scheduled times of all deferred deliveries, epoch ms. */
  #queueTail = 0;
  /** The interval in which the destination collects deliveries for its batches, ms; 0 where a batch is kept open for that. */
  #intervalMs = 0;

  /** `counts`: of all queues of the destination. */
  constructor(dependencies: QueueDependencies, shared: SharedByQueues, id: string, counts: HealthCounts) {
    this.id = id;
    this.#dependencies = dependencies;
    this.#shared = shared;
    this.#resolver = new DestinationResolver(dependencies, id);
    this.#usedAt = dependencies.elapsed();
    this.#admission = new Admission(dependencies.breaker, this.#usedAt);
    this.#tally = new HealthTally(this.#usedAt, counts);
  }

  /**
   * Queues a delivery. It ends as `slow` or `deferred` where no request begins within its wait, and with `Unavailable` once its
   * stage leaves the partition; a request that was left to the slow queue goes on. Requests begin at the end of this turn of the event
   * loop, so that deliveries that are queued together share them.
   */
  enqueue(item: QueueItem): void {
    this.#arrived.push(item);
    item.unregister = onAbort(item.context.signal, () => {
      if (!item.hasLeft) this.cancel(item);
    });
    this.#flushSoon();
  }

  /** Cancels a delivery, whose stage left the partition. A request is aborted once that is so for all deliveries it carries. */
  cancel(item: QueueItem): void {
    this.#queued.delete(item);
    const { request } = item;
    item.end({ error: new Unavailable('stopped while a delivery was under way') });
    if (request === undefined) return;
    request.awaited -= 1;
    if (request.awaited > 0) return;
    request.controller.abort();
    this.#release(request);
    this.#flushSoon();
  }

  /**
   * How long a delivery that comes now would wait for the destination until its request begins, ms. 0 while the circuit is open:
   * none is made.
   */
  waitMs(): number {
    return this.#admission.isOpen(this.#dependencies.elapsed()) ? 0 : this.#estimate.waitMs(this.#load());
  }

  /**
   * Whether deliveries belong into the slow queue: a request takes long, or did a while ago, or the rate holds the next one back
   * for long.
   */
  isSlow(): boolean {
    if (this.#slowRequests > 0) return true;
    const { elapsed } = this.#dependencies;
    const now = elapsed();
    if (this.#slowness !== undefined && now < this.#slowness.until) return true;
    const rateWaitMs = this.#admission.rateWaitMs(this.#limits, now);
    return rateWaitMs > SLOW_REQUEST_MS && !this.#admission.isOpen(now);
  }

  /**
   * Defers a delivery without a step of the retry schedule, because the destination has no room for it, or asked to wait. It
   * expires by how long there was no room for it, not by its age: time that it lay in the log is not the destination's doing.
   */
  #deferred({ task, delivery, destination }: QueueItem): Outcome {
    const { clock, elapsed, schedule, expiryMs } = this.#dependencies;
    const { scheduledAt, deferredSince } = task;
    this.#noteNotAttempted();
    const now = clock();
    // A clock may have been ahead.
    const since = Math.min(deferredSince ?? now, now);
    if (now - since >= expiryMs)
      return dead(delivery, 'expired', 'expired: its destination had no room for it');
    this.#countDeferred(destination);
    const heldMs = this.#admission.heldMs(elapsed());
    const until = heldMs > 0 ? now + heldMs : undefined;
    const usual = this.#estimate.usual(this.#load());
    const { at, queueTail } = scheduleDeferral({
      now,
      ...usual,
      queueTail: this.#queueTail,
      scheduledAt,
      since,
      until,
    });
    this.#queueTail = queueTail;
    const { label } = deferralDelay(retryDelays(schedule), { now, at, until });
    return { delivery, kind: 'deferred', label, scheduledAt: Math.round(at), since };
  }

  /** Defers a delivery to the end of the interval in which its destination collects deliveries. */
  #collectedLater({ delivery, task, destination }: QueueItem, leftMs: number): Outcome {
    const { clock, schedule } = this.#dependencies;
    this.#countDeferred(destination);
    const now = clock();
    const { label } = collectingStep(retryDelays(schedule), leftMs, this.#intervalMs);
    return { delivery, kind: 'deferred', label, scheduledAt: now + leftMs, since: task.deferredSince ?? now };
  }

  #countDeferred({ type }: Destination): void {
    this.#dependencies.metrics.count('tributary_deliveries_total', { outcome: 'deferred', connector: type });
  }

  /**
   * How long a delivery may wait for its request: as long as the first retry step, and twice as long from that time before its
   * scheduled time on, so that it gets room before newer ones. The process holds more than it can send until the next deferred
   * one is back.
   */
  maxWaitMs({ scheduledAt }: Pick<DeliveryTask, 'scheduledAt'>): number {
    const { schedule, clock } = this.#dependencies;
    const onceMs = schedule[0].ms;
    return scheduledAt !== undefined && scheduledAt - clock() <= 2 * onceMs ? 2 * onceMs : onceMs;
  }

  /** How long nothing was queued or under way, ms; 0 while the destination asks to wait. */
  idleMs(): number {
    const { elapsed } = this.#dependencies;
    const isRateLimited = this.#admission.rateWaitMs(this.#limits, elapsed()) > 0;
    const isBusy = this.#requests.size + this.#queued.size + this.#arrived.length > 0;
    if (isRateLimited || isBusy) return 0;
    return elapsed() - this.#usedAt;
  }

  /** The health of the destination, as seen by this process. */
  health(): DestinationReport {
    const [now, elapsed] = [this.#dependencies.clock(), this.#dependencies.elapsed()];
    const [oldest] = this.#queued;
    const { kind, since } = this.#admission.circuit(elapsed);
    const pace = this.#admission.learnedPace();
    return {
      destination_id: this.id,
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

  get #limits(): RequestLimits {
    return this.#shared.limitsOf(this.id);
  }

  #load(): QueueLoad {
    const now = this.#dependencies.elapsed();
    const limits = this.#limits;
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
    this.#check ??= this.#dependencies.timeouts.start(CHECK_MS, () => {
      this.#check = undefined;
      this.#leaveLate();
      this.#checkLater();
    });
  }

  /** Ends the waits that are over. */
  #leaveLate(): void {
    const isSlow = this.isSlow();
    for (const item of this.#queued) {
      const { waitMs, lane } = item;
      const waitedMs = this.#waitedFor(item);
      if (waitedMs < waitMs) continue;
      const isBurst = lane === 'quick' && !isSlow && waitedMs < waitMs * WAIT_FACTOR;
      if (!(this.#isBatchOpen ? lane === 'patient' : isBurst)) this.#notBegun(item);
    }
  }

  #waitedFor({ waitedFrom }: DestinationRequest | QueueItem): number {
    return this.#dependencies.waited() - waitedFrom;
  }

  /** Counts a delivery that was deferred or postponed without an attempt. */
  #noteNotAttempted(): void {
    this.#tally.noteNotAttempted(this.#dependencies.elapsed());
  }

  /** A request takes long: its deliveries and those that wait in quick stages leave for the slow queue. */
  #foundSlow(request: DestinationRequest): void {
    this.#slowRequests += 1;
    this.#slowness = slownessAfter(this.#slowness, request.began, this.#dependencies.elapsed());
    for (const item of request.batch) if (item.request === request) this.#leave(item);
    for (const item of this.#queued) if (item.lane === 'quick') this.#notBegun(item);
  }

  /**
   * The delivery of a quick stage is `slow`. Its request continues for the slow stage, which attaches to it. While the quick
   * stage stops, no delivery waits behind this one, so it stays.
   */
  #leave(item: QueueItem): void {
    const { task, context, onEnd } = item;
    if (item.hasLeft || item.lane === 'patient' || context.stopping?.aborted === true) return;
    item.hasLeft = true;
    const { promise, resolve, reject } = Promise.withResolvers<Outcome>();
    item.onEnd = (outcome) => ('error' in outcome ? reject(outcome.error) : resolve(outcome));
    this.#shared.inFlight.add(task.delivery, promise, () => this.cancel(item));
    onEnd({ delivery: task.delivery, kind: 'slow' });
  }

  /** Ends a delivery for which no request begins in time. */
  #notBegun(item: QueueItem, exit = () => this.#exitOf(item)): void {
    this.#queued.delete(item);
    try {
      item.end(exit());
    } catch (error) {
      item.end({ error });
    }
  }

  /** The outcome of a delivery whose request did not begin in time. */
  #exitOf(item: QueueItem): Outcome {
    const { delivery, lane, key } = item;
    const slow: Outcome = { delivery, kind: 'slow' };
    // The slow stage that attached to it, or will, decides.
    if (item.hasLeft) {
      if (lane === 'quick') this.#shared.diverted.add(key);
      return slow;
    }
    if (lane === 'collecting') {
      const leftMs = this.#collectingMs(item);
      return leftMs > 0 ? this.#collectedLater(item, leftMs) : slow;
    }
    if (lane === 'patient') return this.#deferred(item);
    this.#shared.diverted.add(key);
    return slow;
  }

  /**
   * Ends an attempt, and the delivery with its outcome, unless it is sent again: once at once after a reset connection, and as
   * long as its wait lasts while the destination refuses it for its rate. `aloneMs`: how long it waits where it is refused and
   * others are accepted.
   */
  #attempted(item: QueueItem, end: AttemptEnd, aloneMs = 0): void {
    item.leaveRequest();
    try {
      if (end.kind === 'circuit-open') {
        const connector = item.destination.type;
        this.#dependencies.metrics.count('tributary_deliveries_total', {
          outcome: 'circuit_open',
          connector,
        });
        this.#noteNotAttempted();
      }
      const outcome = afterAttempt(item, end, this.#dependencies, this.#dependencies.clock());
      item.delivery = outcome.delivery;
      item.isRepeated = outcome.kind === 'again-now';
      const isRefused = end.kind === 'answered' && isThrottled(end.result);
      if (outcome.kind === 'again-now') {
        [item.enqueuedAt, item.waitedFrom] = [this.#dependencies.elapsed(), this.#dependencies.waited()];
        this.#queue(item);
      } else if (!(isRefused && outcome.kind === 'retry' && this.#enqueueAgain(item, aloneMs)))
        item.end(outcome);
    } catch (error) {
      item.end({ error });
    }
  }

  /**
   * Queues a delivery that its destination has just refused for its rate: at its place by the time it was queued first, and
   * for the rest of its wait. False where it alone is to wait for longer than that.
   */
  #enqueueAgain(item: QueueItem, aloneMs: number): boolean {
    const { elapsed, timeouts } = this.#dependencies;
    const leftMs = item.waitMs - this.#waitedFor(item);
    if (aloneMs > Math.max(leftMs, BACKOFF_MS)) return false;
    const rateWaitMs = this.#admission.rateWaitMs(this.#limits, elapsed());
    const queueAgain = () => this.#queue(item);
    if (leftMs <= 0 || rateWaitMs > leftMs) this.#notBegun(item);
    // In steps: timeouts are kept by their duration.
    else if (aloneMs > 0)
      item.aloneTimeout = timeouts.start(Math.ceil(aloneMs / BACKOFF_MS) * BACKOFF_MS, queueAgain);
    else queueAgain();
    return true;
  }

  #queue(item: QueueItem): void {
    this.#queued.add(item);
    this.#isSorted = false;
    this.#checkLater();
    this.#flushSoon();
  }

  #flushSoon(): void {
    if (this.#willFlush) return;
    this.#willFlush = true;
    setImmediate(() => {
      this.#willFlush = false;
      this.#flush();
    });
  }

  #flushLater(ms: number): false {
    const at = this.#dependencies.elapsed() + ms;
    if (this.#laterFlush !== undefined && this.#laterFlush.at <= at) return false;
    clearTimeout(this.#laterFlush?.timer);
    const timer = setTimeout(() => {
      this.#laterFlush = undefined;
      this.#flush();
    }, ms).unref();
    this.#laterFlush = { timer, at };
    return false;
  }

  /** Lets deliveries in that were queued in this turn. Those of a slow destination leave at once. */
  #takeArrived(): void {
    const { elapsed, waited, schedule } = this.#dependencies;
    const arrived = this.#arrived;
    if (arrived.length === 0) return;
    this.#arrived = [];
    const [now, waitedFrom] = [elapsed(), waited()];
    this.#usedAt = now;
    const target = this.#resolver.resolve();
    const { ms = 0 } = target.kind === 'target' ? this.#batchLimits(target) : {};
    // Within a retry step a batch is kept open here.
    this.#intervalMs = ms > schedule[0].ms ? ms : 0;
    const isSlow = this.isSlow();
    for (const item of arrived) {
      if (item.isOver) continue;
      const { lane, task } = item;
      item.enqueuedAt = now;
      item.waitedFrom = waitedFrom;
      if (lane !== 'patient' && this.#shared.inFlight.has(item.delivery))
        // Its partition began anew before its record was in the slow queue.
        item.end({ delivery: item.delivery, kind: 'slow' });
      else if (lane === 'quick' && this.#intervalMs > 0 && isUntried(task)) this.#collect(item, now);
      else if (this.#mayWait(item, isSlow)) this.#queued.add(item);
      // Before later ones of its subject are queued: one that was queued leaves for the slow queue, and they follow it.
      else if (lane === 'quick' && isSlow && this.waitMs() > this.maxWaitMs(task))
        this.#notBegun(item, () => this.#deferred(item));
      else this.#notBegun(item);
    }
    this.#checkLater();
  }

  #mayWait({ lane, task, waitMs }: QueueItem, isSlow: boolean): boolean {
    if (lane === 'patient') return this.waitMs() <= waitMs;
    // A delivery follows earlier ones of its subject into the slow queue.
    return !isSlow && waitMs > 0 && !this.#shared.diverted.has(task.key);
  }

  /**
   * A delivery to a destination that collects deliveries for longer than a batch may be kept open here: it is sent in a batch
   * that becomes full at once, or else at the end of the interval, for which it waits in the log.
   */
  #collect(item: QueueItem, now: number): void {
    const leftMs = this.#collectingMs(item);
    item.lane = 'collecting';
    item.waitMs = leftMs > 0 ? SLOW_REQUEST_MS : SLOW_REQUEST_MS + TOGETHER_MS;
    item.collectedUntil = now + (leftMs > 0 ? leftMs : Math.max(0, leftMs + TOGETHER_MS));
    // It has waited for a full batch before.
    if (leftMs > 0 && item.task.scheduledAt !== undefined) this.#notBegun(item);
    else this.#queued.add(item);
  }

  #collectingMs({ delivery }: QueueItem): number {
    return collectingMs(Date.parse(delivery.created_at), this.#intervalMs, this.#dependencies.clock());
  }

  /** Begins as many requests as may begin now. */
  #flush(): void {
    this.#takeArrived();
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
    const now = this.#dependencies.elapsed();
    if (this.#admission.isOpen(now)) {
      const { kind, since } = this.#admission.circuit(now);
      return this.#endQueued({ kind: 'circuit-open', openMs: kind === 'closed' ? 0 : now - since });
    }
    const limits = this.#limits;
    const concurrency = this.#admission.concurrency(limits, now);
    if (this.#requests.size >= concurrency)
      return concurrency < limits.maxConcurrency ? this.#flushLater(DOUBLED_AFTER_MS) : false;
    const rateWaitMs = this.#admission.rateWaitMs(limits, now);
    if (rateWaitMs > 0) return this.#flushLater(rateWaitMs);
    const target = this.#resolver.resolve();
    if (target.kind !== 'target') return this.#endQueued(target);
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
      if (item.lane === 'quick' && this.#shared.diverted.has(item.key)) this.#notBegun(item);
      else yield item;
    }
  }

  #endQueued(end: AttemptEnd): false {
    const queued = [...this.#queued];
    this.#queued.clear();
    for (const item of queued) this.#attempted(item, end);
    return false;
  }

  /** A batch is kept open no longer than the shortest retry step takes: other records wait behind the delivery. */
  #openBatchLimits(target: Target): BatchLimits {
    const limits = this.#batchLimits(target);
    return { ...limits, ms: Math.min(limits.ms ?? 0, this.#dependencies.schedule[0].ms) };
  }

  #batchLimits({ connector, destination }: Target): BatchLimits {
    try {
      const limits = connector.batchLimits(destination);
      this.#areLimitsMissing = false;
      return limits;
    } catch (error) {
      // Not rethrown: in this timer callback it would end the process. Once, as each delivery asks for the limits.
      if (!this.#areLimitsMissing) this.#report(error);
      this.#areLimitsMissing = true;
      return { events: 1 };
    }
  }

  #begin(gathered: readonly QueueItem[], target: Target, limits: RequestLimits): void {
    const { clock, elapsed, waited, timeouts } = this.#dependencies;
    for (const item of gathered) this.#queued.delete(item);
    const batch = gathered.filter((item) => !this.#isStopped(item));
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
      slowTimeout: timeouts.start(SLOW_REQUEST_MS, () => this.#foundSlow(request)),
    };
    for (const item of batch) item.request = request;
    this.#requests.add(request);
    for (const key of request.keys) this.#underWay.set(key, request);
    const send = () => void this.#send(request);
    // The delivery that began the flush may be another one.
    if (this.#dependencies.tracing === undefined) send();
    else this.#dependencies.tracing.outside(send);
  }

  async #send(request: DestinationRequest): Promise<void> {
    if (request.batch.some(({ delivery }) => !hasEvent(delivery)) && !(await this.#readEvents(request)))
      return;
    const { batch, target, startedAt, began, controller } = request;
    const answered = await sendBatch(
      batch,
      target,
      controller.signal,
      this.#report,
      this.#dependencies.tracing,
    );
    const has410 = answered.some((result) => answered410(result, target.type));
    const answers = has410 ? retriedIfAnswered410(answered, target.type) : answered;
    const results = failedIfRefusedAgain(answers, batch, this.#acceptedAt);
    const ended = this.#dependencies.elapsed();
    this.#remove(request, ended);
    const durationMs = ended - began;
    let isAlone = false;
    // An aborted request is no sign of the destination's health.
    if (!controller.signal.aborted) {
      const sent = answers.filter(wasSent);
      if (sent.some(({ outcome }) => outcome !== 'retry')) this.#acceptedAt = this.#dependencies.clock();
      const aboutRate = answers.filter(
        (answer, at) => wasSent(answer) && (!isThrottled(answer) || answer === results[at]),
      );
      isAlone =
        sent.length > 0
          ? this.#admission.requestEnded(aboutRate, request, ended)
          : this.#admission.nothingSent(ended);
      if (sent.length > 0) this.#estimate.requestEnded(this.#waitedFor(request), batch.length);
      this.#count(request, results, durationMs, ended);
    }
    const { version } = target.destination;
    if (has410) this.#shared.pause(this.id, version, 'gone');
    if (answered.some((result) => result.outcome === 'retry' && result.disconnected === true))
      this.#shared.pause(this.id, version, 'access_refused');
    batch.forEach((item, at) => {
      const result = results[at] ?? CONNECTOR_FAILED;
      if (item.request === request)
        this.#attempted(
          item,
          { kind: 'answered', result, startedAt, durationMs },
          isAlone ? aloneWaitMs(result) : 0,
        );
    });
    // Once for all requests that end in this turn: each flush searches the queue for deliveries whose subject is free.
    this.#flushSoon();
  }

  /**
   * Reads the events that deliveries of the request refer to. Those without an event, those that their rule stops, and those
   * that cannot be read now leave the request. False where it carries none any more.
   */
  async #readEvents(request: DestinationRequest): Promise<boolean> {
    const read = async (item: QueueItem) => {
      try {
        const delivery = await this.#dependencies.reads.withEvent(item.delivery);
        if (delivery === undefined) this.#attempted(item, { kind: 'no-event' });
        else if (delivery !== item.delivery) {
          item.loaded = delivery;
          this.#isStopped(item);
        }
      } catch (error) {
        item.end({ error });
      }
    };
    await Promise.all(request.batch.map(read));
    request.batch = request.batch.filter((item) => item.request === request);
    request.awaited = request.batch.length;
    if (request.batch.length > 0) return true;
    this.#remove(request, this.#dependencies.elapsed());
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
    const { metrics, clock } = this.#dependencies;
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

  /** Ends the attempt of a delivery whose rule would not make it any more. */
  #isStopped(item: QueueItem): boolean {
    try {
      const { headers } = item.task;
      const { state } = this.#dependencies.catalog;
      const reason = cancelledByRule(item.sent, headers, item.destination.workspace_id, state);
      if (reason === undefined) return false;
      this.#attempted(item, { kind: 'stopped', reason });
    } catch (error) {
      item.end({ error });
    }
    return true;
  }

  readonly #report = (error: unknown): void => {
    const about = { destination: this.id, error: messageOf(error) };
    this.#dependencies.logger.error(about, 'a connector threw instead of answering');
  };
}

/** How long a delivery waits that was refused for its rate while others were accepted. */
function aloneWaitMs(result: DeliveryResult): number {
  if (!isThrottled(result)) return 0;
  const askedMs = result.outcome === 'retry' ? (result.afterMs ?? 0) : 0;
  return Math.min(Math.max(askedMs, BACKOFF_MS), MAX_RETRY_AFTER_MS);
}

interface Gathered<Item> {
  /** From the first item on; not empty where something is queued. */
  readonly batch: readonly Item[];
  /** How long the first of them may still wait for more items, ms; 0 when the request is to begin. */
  readonly waitMs: number;
}

/** The queued items, oldest first, that the next request carries: up to the first limit that is reached. */
export function gather<
  Item extends Pick<QueueItem, 'bytes' | 'enqueuedAt'> & Partial<Pick<QueueItem, 'collectedUntil'>>,
>(
  queued: Iterable<Item>,
  { events, bytes = Number.POSITIVE_INFINITY, ms = 0 }: BatchLimits,
  now: number,
): Gathered<Item> {
  const batch: Item[] = [];
  let batchBytes = 0;
  let full = false;
  for (const item of queued) {
    full = batch.length >= Math.max(1, events) || (batch.length > 0 && batchBytes + item.bytes > bytes);
    if (full) break;
    batch.push(item);
    batchBytes += item.bytes;
  }
  full ||= batch.length >= events || batchBytes >= bytes;
  if (full || batch.length === 0) return { batch, waitMs: 0 };
  const due = Math.min(...batch.map((item) => item.collectedUntil ?? item.enqueuedAt + ms));
  return { batch, waitMs: Math.max(0, due - now) };
}
