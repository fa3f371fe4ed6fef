import {
  type BatchLimits,
  type Connector,
  type ConnectorCatalog,
  type ConnectorDestination,
  type Delivery,
  type DeliveryEnvelope,
  type DeliveryResult,
  type Destination,
  HEADER,
  hasEvent,
  isSampled,
  type Logger,
  messageOf,
  type Span,
  type StageContext,
  type Tracing,
  Unavailable,
  underIdempotencyKey,
} from '@tributary/core';
import type { Timeout } from '../fairness/waits.ts';
import type { AdmittedRequest } from './admission.ts';
import { type Answer, type DeliveryTask, disabledBecause, isThrottled, type Settled } from './outcome.ts';

/** The end of one attempt to deliver. */
export type Attempt =
  | ({ readonly kind: 'answered' } & Answer)
  /** The delivery's rule would not make it any more: no request was made. */
  | { readonly kind: 'stopped'; readonly reason: string }
  /** The log no longer has the event: no request was made. */
  | { readonly kind: 'no-event' }
  | { readonly kind: 'circuit-open' }
  /** No request began in time. */
  | { readonly kind: 'not-begun' }
  | NoTarget;

/** How long a delivery may wait for its request to begin. */
export interface QueueWait {
  readonly ms: number;
  /** Whether it may wait for longer in a batch that is kept open for more deliveries. */
  readonly mayWaitInOpenBatch: boolean;
  /** How long it waits for others in a batch that is not full, ms. Default: as long as the batch is kept open. */
  readonly collectMs?: number | undefined;
}

/** The queue of a destination, see `DestinationQueue`. */
export interface DeliveryQueue {
  enqueue(items: readonly QueueItem[]): void;
  enqueueAgain(item: QueueItem): boolean;
  cancel(item: QueueItem): void;
  noteNotAttempted(): void;
  circuitOpenMs(): number;
}

/** Follows the attempts of queued deliveries. */
export interface Attempts {
  /** Why the rule of the delivery stops it; asked when its request begins. */
  stopReason(item: QueueItem): string | undefined;
  /** An attempt ended. The delivery ends, or is queued again. */
  attempted(item: QueueItem, attempt: Attempt): void;
  /** The request of the delivery takes long. */
  tookLong(item: QueueItem): void;
}

/** Gets the end of a delivery that was queued, once: its outcome, or an error. */
export interface Ends<Context extends StageContext = StageContext> {
  settled(item: QueueItem<Context>, settled: Settled): void;
  failed(item: QueueItem<Context>, error: unknown): void;
}

/** A delivery in the queue of its destination, or in a request. */
export class QueueItem<Context extends StageContext = StageContext> {
  readonly task: DeliveryTask;
  readonly queue: DeliveryQueue;
  readonly destination: Destination;
  readonly context: Context;
  readonly wait: QueueWait;
  readonly attempts: Attempts;
  ends: Ends<Context>;
  /** With the attempts made so far. */
  delivery: DeliveryEnvelope;
  /** The same with its event, where that was read for the request. */
  loaded: DeliveryEnvelope | undefined;
  /** When it was queued first: ms of a monotonic clock, and of the clock of waits. */
  enqueuedAt = 0;
  waitedFrom = 0;
  request: DestinationRequest | undefined;
  /** Not before: it was refused for its rate while others were accepted. Ms of a monotonic clock. */
  notBefore = 0;
  /** Until then. */
  aloneTimeout: Timeout | undefined;
  /** Whether its attempt repeats the one before at once. */
  isRepeated = false;
  isCancelled = false;
  /** Whether it has ended. */
  isOver = false;
  /** Whether its stage goes on without it where its request takes long. */
  mayLeave: boolean;

  constructor(
    task: DeliveryTask,
    queue: DeliveryQueue,
    destination: Destination,
    context: Context,
    wait: QueueWait,
    attempts: Attempts,
    ends: Ends<Context>,
    mayLeave: boolean,
  ) {
    this.task = task;
    this.queue = queue;
    this.destination = destination;
    this.context = context;
    this.wait = wait;
    this.attempts = attempts;
    this.ends = ends;
    this.mayLeave = mayLeave;
    this.delivery = task.delivery;
  }

  /** Of its destination and subject: requests with one key follow each other. */
  get key(): string {
    return this.task.key;
  }

  get bytes(): number {
    return this.task.bytes;
  }

  /** Until when it waits for others in a batch that is not full, ms of a monotonic clock; undefined: as batches are kept open. */
  get collectedUntil(): number | undefined {
    const { collectMs } = this.wait;
    return collectMs === undefined ? undefined : this.enqueuedAt + collectMs;
  }

  /** Whether it leaves for the slow queue, with the later ones of its subject, where no request begins in time. */
  get isQuick(): boolean {
    return !this.wait.mayWaitInOpenBatch && this.wait.collectMs === undefined;
  }

  /** Whether its last attempt was refused for its rate. */
  get isRefused(): boolean {
    return this.delivery.attempts.at(-1)?.throttled === true;
  }

  /** The delivery as the request carries it. */
  get sent(): DeliveryEnvelope {
    return this.loaded ?? this.delivery;
  }

  /** Ends an attempt. */
  settle(attempt: Attempt): void {
    this.#leaveRequest();
    try {
      this.attempts.attempted(this, attempt);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Ends the delivery with its outcome. */
  end(settled: Settled): void {
    if (this.isOver) return;
    this.isOver = true;
    this.ends.settled(this, settled);
  }

  fail(error: unknown): void {
    this.#leaveRequest();
    if (this.isOver) return;
    this.isOver = true;
    this.ends.failed(this, error);
  }

  /** Its stage left the partition. A request is aborted once that is so for all deliveries it carries. */
  cancel(): void {
    this.isCancelled = true;
    const { request } = this;
    this.fail(cancelled());
    if (request === undefined) return;
    request.awaited -= 1;
    if (request.awaited === 0) request.controller.abort();
  }

  #leaveRequest(): void {
    this.request = undefined;
    this.loaded = undefined;
    this.aloneTimeout?.cancel();
  }
}

export function cancelled(): Unavailable {
  return new Unavailable('stopped while a delivery was under way');
}

/** One request to a destination, under way. */
export interface DestinationRequest extends AdmittedRequest {
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

export const CONNECTOR_FAILED: DeliveryResult = { outcome: 'retry', reason: 'the connector failed' };

/**
 * The connector's results, one for each delivery of the batch. A connector that throws has a fault of its own: it is
 * reported, and the deliveries are retried. Each sampled delivery has a span; log lines name the first of them.
 */
export async function resultsOf(
  { batch, target, controller: { signal } }: DestinationRequest,
  report: (error: unknown) => void,
  tracing?: Tracing | undefined,
): Promise<readonly DeliveryResult[]> {
  const { connector, destination } = target;
  const deliveries = batch.map(({ sent }) => underIdempotencyKey(withItsEvent(sent)));
  const deliver = async (options: Parameters<typeof connector.deliver>[2]) => {
    try {
      const results = await connector.deliver(destination, deliveries, options);
      return results.length === batch.length
        ? results
        : batch.map((_, at) => results[at] ?? CONNECTOR_FAILED);
    } catch (error) {
      report(error);
      return batch.map(() => CONNECTOR_FAILED);
    }
  };
  if (tracing === undefined) return deliver({ signal });
  const spans = batch.map((item) => requestSpan(tracing, item, target));
  const first = spans.find((span) => span !== undefined);
  if (first === undefined) return deliver({ signal });
  const traceparentOf = (delivery: Delivery) => spans[deliveries.indexOf(delivery)]?.traceparent;
  const results = await first.within(() => deliver({ signal, traceparentOf }));
  for (const [at, span] of spans.entries()) endSpan(span, results[at] ?? CONNECTOR_FAILED);
  return results;
}

function withItsEvent(delivery: DeliveryEnvelope): Delivery {
  if (hasEvent(delivery)) return delivery;
  throw new Error(`the event of the delivery ${delivery.id} was not read`);
}

function requestSpan(tracing: Tracing, { task, delivery }: QueueItem, { type }: Target): Span | undefined {
  const traceparent = task.headers[HEADER.traceparent];
  if (!isSampled(traceparent)) return undefined;
  return tracing.begin(`request ${type}`, {
    kind: 'client',
    parent: traceparent,
    attributes: {
      'tributary.delivery_id': delivery.id,
      'tributary.destination_id': delivery.destination_id,
      'tributary.attempt': delivery.attempts.length + 1,
    },
  });
}

function endSpan(span: Span | undefined, result: DeliveryResult): void {
  if (span === undefined) return;
  span.set({
    'tributary.outcome': result.outcome,
    ...(result.status === undefined ? {} : { 'http.response.status_code': result.status }),
  });
  span.end(result.outcome === 'delivered' || result.outcome === 'unwanted' ? undefined : result.reason);
}

/**
 * The results with refusals of deliveries that had been refused before, although the destination accepted others since, at
 * `acceptedAt` (epoch ms), as failures of those deliveries: they use their retry steps.
 */
export function failedIfRefusedAgain(
  results: readonly DeliveryResult[],
  batch: readonly Pick<QueueItem, 'delivery'>[],
  acceptedAt: number,
): readonly DeliveryResult[] {
  return results.map((result, at) => {
    const last = batch[at]?.delivery.attempts.at(-1);
    if (result.outcome !== 'retry' || !isThrottled(result) || last?.throttled !== true) return result;
    if (acceptedAt <= Date.parse(last.at) + last.duration_ms) return result;
    const { throttled: _, ...failed } = result;
    return failed;
  });
}

const HTTP_GONE = 410;

/** Prefix of connectors whose 410 is about one event: a device, a recipient or a list was removed, not the service. */
const ANSWERING_FOR_EVENTS = 'segment-';

/** Whether a destination answered 410 Gone about itself. Standard Webhooks asks the sender to stop then. */
export function answered410({ outcome, status }: DeliveryResult, type: string): boolean {
  return outcome === 'dead' && status === HTTP_GONE && !type.startsWith(ANSWERING_FOR_EVENTS);
}

/** Deliveries answered with 410 are retried: they wait with the later deliveries while the destination is paused. */
export function retriedIfAnswered410(
  results: readonly DeliveryResult[],
  type: string,
): readonly DeliveryResult[] {
  // Equal results stay one object: they count as one error of the destination.
  const retried = new Map<DeliveryResult, DeliveryResult>();
  for (const result of results)
    if (answered410(result, type) && result.outcome === 'dead')
      retried.set(result, { ...result, outcome: 'retry' });
  return results.map((result) => retried.get(result) ?? result);
}

/** Where a request goes: the destination with unsealed settings, and its connector. */
export interface Target {
  readonly kind: 'target';
  readonly type: string;
  readonly connector: Connector;
  readonly destination: ConnectorDestination;
}

/** Why no request can be made. `permanent`: its deliveries are dead; else they are postponed. */
type NoTarget =
  | { readonly kind: 'paused' }
  | { readonly kind: 'unreachable'; readonly reason: string; readonly permanent: boolean };

export interface ResolverDependencies {
  readonly connectors: ConnectorCatalog;
  /** The destination with its secrets opened. Throws when no key opens them. */
  unseal(destination: Destination): ConnectorDestination;
  /** The destination as it is now; undefined when it was deleted. */
  current(id: string): Destination | undefined;
  readonly logger: Logger;
}

/** Resolves one destination for each request, by its settings at that moment. */
export class DestinationResolver {
  readonly #dependencies: ResolverDependencies;
  readonly id: string;
  #version: number | undefined;
  /** The destination in `#version`. Kept, so that secrets are opened, and a failure is logged, once. */
  #unsealed: ConnectorDestination | undefined;

  constructor(dependencies: ResolverDependencies, id: string) {
    this.#dependencies = dependencies;
    this.id = id;
  }

  resolve(): Target | NoTarget {
    const { connectors, current } = this.#dependencies;
    const known = current(this.id);
    if (known?.enabled !== true) return unreachable(disabledBecause(known), true);
    if (known.paused === true) return { kind: 'paused' };
    const connector = connectors.connector(known.type);
    if (connector === undefined) return unreachable(`no connector of type ${known.type}`, true);
    const destination = this.#unseal(known);
    if (destination === undefined) return unreachable('the settings cannot be unsealed', false);
    return { kind: 'target', type: known.type, connector, destination };
  }

  #unseal(destination: Destination): ConnectorDestination | undefined {
    const { id, version } = destination;
    if (this.#version === version) return this.#unsealed;
    const { unseal, logger } = this.#dependencies;
    this.#version = version;
    this.#unsealed = undefined;
    try {
      this.#unsealed = unseal(destination);
    } catch (error) {
      const about = { destination: id, version, error: messageOf(error) };
      logger.error(about, 'the settings of a destination cannot be unsealed');
    }
    return this.#unsealed;
  }
}

function unreachable(reason: string, permanent: boolean): NoTarget {
  return { kind: 'unreachable', reason, permanent };
}
