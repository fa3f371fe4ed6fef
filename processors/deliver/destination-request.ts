import {
  type BatchLimits,
  type Delivery,
  type DeliveryResult,
  isSampled,
  type Span,
  type Tracing,
  Unavailable,
  underIdempotencyKey,
} from '@tributary/core';
import type { Timeout } from '../fairness/timeout-wheel.ts';
import type { NoTarget, Target } from './destination-resolver.ts';
import type { Answer } from './outcome.ts';
import type { RequestLimits } from './policy/admission.ts';

/** The end of one attempt to deliver. */
export type Attempt =
  | ({ readonly kind: 'answered' } & Answer)
  /** The delivery's rule would not make it any more: no request was made. */
  | { readonly kind: 'stopped'; readonly reason: string }
  | { readonly kind: 'circuit-open' }
  /** No request began in time. */
  | { readonly kind: 'not-begun' }
  | NoTarget;

/** A delivery in the queue of its destination, or in a request. */
export class QueueItem {
  /** With the attempts made so far. */
  delivery: Delivery;
  readonly bytes: number;
  /** Why the delivery's rule stops it; evaluated when its request begins. */
  readonly stopReason: () => string | undefined;
  /** The trace context of its record. */
  readonly traceparent: string | undefined;
  /** Ms of a monotonic clock. */
  enqueuedAt = 0;
  /** Until its request begins. */
  timeout: Timeout | undefined;
  request: DestinationRequest | undefined;
  isCancelled = false;
  #attempt: PromiseWithResolvers<Attempt> | undefined;

  constructor(
    delivery: Delivery,
    bytes: number,
    stopReason: () => string | undefined,
    traceparent?: string | undefined,
  ) {
    this.delivery = delivery;
    this.bytes = bytes;
    this.stopReason = stopReason;
    this.traceparent = traceparent;
  }

  /** A new attempt, which `settle` or `fail` ends. */
  attempt(): Promise<Attempt> {
    this.#attempt = Promise.withResolvers<Attempt>();
    return this.#attempt.promise;
  }

  settle(attempt: Attempt): void {
    this.request = undefined;
    this.timeout?.cancel();
    this.#attempt?.resolve(attempt);
  }

  fail(error: unknown): void {
    this.request = undefined;
    this.timeout?.cancel();
    this.#attempt?.reject(error);
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
}

export function cancelled(): Unavailable {
  return new Unavailable('stopped while a delivery was under way');
}

/** One request to a destination, under way. */
export interface DestinationRequest {
  readonly batch: readonly QueueItem[];
  readonly target: Target;
  readonly limits: RequestLimits;
  /** Deliveries of the batch that were not cancelled. */
  awaited: number;
  readonly controller: AbortController;
  /** Epoch ms, and ms of a monotonic clock. */
  readonly startedAt: number;
  readonly began: number;
}

export interface Gathered<Item> {
  /** From the first item on; not empty where something is queued. */
  readonly batch: readonly Item[];
  /** How long the first of them may still wait for more items, ms; 0 when the request is to begin. */
  readonly waitMs: number;
}

/** The queued items, oldest first, that the next request carries: up to the first limit that is reached. */
export function gather<Item extends Pick<QueueItem, 'bytes' | 'enqueuedAt'>>(
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
  const [first] = batch;
  const waitMs = full || first === undefined ? 0 : Math.max(0, first.enqueuedAt + ms - now);
  return { batch, waitMs };
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
  const deliveries = batch.map(({ delivery }) => underIdempotencyKey(delivery));
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

function requestSpan(
  tracing: Tracing,
  { traceparent, delivery }: QueueItem,
  { type }: Target,
): Span | undefined {
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
  span.end(result.outcome === 'delivered' ? undefined : result.reason);
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
