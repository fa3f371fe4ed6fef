import type { Delivery, DeliveryResult } from '@tributary/core';

/** The deliveries of one request: at least one. */
export type Part = readonly [Delivery, ...Delivery[]];

/** The deliveries in order, in parts of `size` at most. */
export function partsOf(deliveries: readonly Delivery[], size: number): readonly Part[] {
  if (isPart(deliveries) && deliveries.length <= size) return [deliveries];
  const parts: Part[] = [];
  for (let at = 0; at < deliveries.length; at += size) {
    const part = deliveries.slice(at, at + size);
    if (isPart(part)) parts.push(part);
  }
  return parts;
}

function isPart(deliveries: readonly Delivery[]): deliveries is Part {
  return deliveries.length > 0;
}

/** The result of one request. */
export interface PartResult {
  readonly result: DeliveryResult;
  /**
   * Whether some deliveries of the part may have caused the refusal while others are fine, so that it is worth sending in
   * smaller parts. For a part of one: the refusal is about that delivery and not about the destination.
   */
  readonly mayBeSplit: boolean;
}

export interface SendInPartsOptions {
  send(part: Part): Promise<PartResult>;
  /** Called at each refusal: whether there is time to continue by halves. Otherwise single deliveries are sent. */
  hasTimeToHalve(): boolean;
}

/**
 * After so many refusals in a row from the first request on, without a settled delivery, single deliveries from all over
 * the batch are tried: up to three guilty deliveries spoil fewer parts than that. After as many refused single deliveries
 * sending ends: a destination in trouble must not get hundreds of requests for one batch.
 */
const MAX_FRUITLESS = 7;

/**
 * Sends a batch and, where some of its deliveries may have caused a refusal, its parts, so that no delivery is dead or
 * delayed because of another one. Larger parts go first: one accepted request settles the most deliveries.
 *
 * Ends at the first retryable refusal that is about the destination as a whole; deliveries that were not sent by then are
 * retried. Returns a result for each delivery, in order.
 */
export async function sendInParts(
  batch: Part,
  { send, hasTimeToHalve }: SendInPartsOptions,
): Promise<readonly DeliveryResult[]> {
  const results = new Map<Delivery, DeliveryResult>();
  let notReached: DeliveryResult = { outcome: 'retry', reason: 'not reached' };
  let fruitless = 0;
  let areSpread = false;
  const parts = [batch];
  // Parts are appended during the iteration.
  for (const part of parts) {
    const { result, mayBeSplit } = await send(part);
    if (part.length > 1 && mayBeSplit) {
      parts.push(...partsOf(part, hasTimeToHalve() ? Math.ceil(part.length / 2) : 1));
    } else {
      if (part === batch) return batch.map(() => result);
      for (const delivery of part) results.set(delivery, result);
      if (result.outcome !== 'retry') fruitless = Number.NEGATIVE_INFINITY;
    }
    if (result.outcome !== 'retry') continue;
    fruitless += 1;
    if (mayBeSplit && fruitless < MAX_FRUITLESS) continue;
    if (mayBeSplit && !areSpread) {
      areSpread = true;
      fruitless = 0;
      const unsettled = parts.splice(parts.indexOf(part) + 1);
      const first = new Set(spread(unsettled.flat(), MAX_FRUITLESS));
      const rest = unsettled
        .map((some): readonly Delivery[] => some.filter((delivery) => !first.has(delivery)))
        .filter(isPart);
      parts.push(...partsOf([...first], 1), ...rest);
      continue;
    }
    const { afterMs, throttled } = result;
    notReached = {
      outcome: 'retry',
      reason: `not reached: ${result.reason}`,
      ...(afterMs === undefined ? {} : { afterMs }),
      ...(throttled === undefined ? {} : { throttled }),
    };
    break;
  }
  return batch.map((delivery) => results.get(delivery) ?? notReached);
}

/** At most `count` from all over the list. */
function spread(deliveries: readonly Delivery[], count: number): readonly Delivery[] {
  const stride = Math.max(1, Math.ceil(deliveries.length / count));
  return deliveries.filter((_delivery, at) => at % stride === 0);
}
