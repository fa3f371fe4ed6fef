import {
  type Catalog,
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
  type Tracing,
  underIdempotencyKey,
} from '@tributary/core';
import type { DeliveryTask } from './delivery-task.ts';
import { type AttemptEnd, disabledBecause, isThrottled } from './outcome.ts';

/** Where a request goes: the destination with unsealed settings, and its connector. */
export interface Target {
  readonly kind: 'target';
  readonly type: string;
  readonly connector: Connector;
  readonly destination: ConnectorDestination;
}

export interface ResolverDependencies {
  readonly catalog: Pick<Catalog, 'state'>;
  readonly connectors: ConnectorCatalog;
  /** The destination with its secrets opened. Throws when no key opens them. */
  unseal(destination: Destination): ConnectorDestination;
  readonly logger: Logger;
}

/** Resolves one destination for each request, by its settings at that moment. */
export class DestinationResolver {
  readonly #dependencies: ResolverDependencies;
  readonly #id: string;
  #version: number | undefined;
  /** The destination in `#version`. Kept, so that secrets are opened, and a failure is logged, once. */
  #unsealed: ConnectorDestination | undefined;

  constructor(dependencies: ResolverDependencies, id: string) {
    this.#dependencies = dependencies;
    this.#id = id;
  }

  /** The target, or why no request can be made. */
  resolve(): Target | Extract<AttemptEnd, { kind: 'paused' | 'unreachable' }> {
    const { catalog, connectors } = this.#dependencies;
    const known = catalog.state.destination(this.#id);
    if (known?.enabled !== true)
      return { kind: 'unreachable', reason: disabledBecause(known), permanent: true };
    if (known.paused === true) return { kind: 'paused', destination: known };
    const { type } = known;
    const connector = connectors.connector(type);
    if (connector === undefined)
      return { kind: 'unreachable', reason: `no connector of type ${type}`, permanent: true };
    const destination = this.#unseal(known);
    if (destination === undefined)
      return { kind: 'unreachable', reason: 'the settings cannot be unsealed', permanent: false };
    return { kind: 'target', type, connector, destination };
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

/** A delivery in a request. */
interface SentDelivery {
  readonly task: Pick<DeliveryTask, 'headers'>;
  readonly delivery: DeliveryEnvelope;
  /** As the request carries it. */
  readonly sent: DeliveryEnvelope;
}

export const CONNECTOR_FAILED: DeliveryResult = { outcome: 'retry', reason: 'the connector failed' };

/**
 * Sends a batch; returns the connector's results, one for each delivery. A connector that throws has a fault of its own:
 * it is reported, and the deliveries are retried. Each sampled delivery has a span; log lines name the first of them.
 */
export async function sendBatch(
  batch: readonly SentDelivery[],
  target: Target,
  signal: AbortSignal,
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

function requestSpan(tracing: Tracing, { task, delivery }: SentDelivery, { type }: Target): Span | undefined {
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
  batch: readonly Pick<SentDelivery, 'delivery'>[],
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
