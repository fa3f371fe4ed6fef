import type { Delivery, DeliveryResult } from '@tributary/core';

/** What one request holds: never nothing. */
export type Part = readonly [Delivery, ...Delivery[]];

/** The same in order, at most `size` in each part. */
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

/** What became of a part. */
export interface PartResult {
  readonly result: DeliveryResult;
  /** Some of the part may have caused the refusal while others are fine; of one alone: it speaks of that delivery. */
  readonly someToBlame: boolean;
}

export interface SendInPartsOptions {
  send(part: Part): Promise<PartResult>;
  /** Asked at each refusal: is there time to go on in halves? With less time, one by one settles some for certain. */
  mayHalve(): boolean;
}

/**
 * Refusals that settle nothing, in a row from the first on, before single deliveries are tried: up to three deliveries
 * spoil fewer parts than that. After as many refused single deliveries, taken from all over the batch, the place counts as
 * unable to take anything: a place in trouble is not asked hundreds of times.
 */
const MAX_FRUITLESS = 7;

/**
 * Sends a batch, and where it is refused for what may be the fault of some, its parts, so that none is given up or held
 * up for another's sake. Larger parts go before smaller ones: the first request that is taken settles the most.
 *
 * It ends at the first refusal that speaks of the place and may pass, since a place that is busy or gone is not to be
 * asked on; what was not sent by then is to be tried again as well. Answers for every delivery, in order.
 */
export async function sendInParts(
  batch: Part,
  { send, mayHalve }: SendInPartsOptions,
): Promise<readonly DeliveryResult[]> {
  const results = new Map<Delivery, DeliveryResult>();
  let notReached: DeliveryResult = { outcome: 'retry', reason: 'not reached' };
  let fruitless = 0;
  let areSpread = false;
  const parts = [batch];
  // It grows while it is walked through.
  for (const part of parts) {
    const { result, someToBlame } = await send(part);
    if (part.length > 1 && someToBlame) {
      parts.push(...partsOf(part, mayHalve() ? Math.ceil(part.length / 2) : 1));
    } else {
      if (part === batch) return batch.map(() => result);
      for (const delivery of part) results.set(delivery, result);
      if (result.outcome !== 'retry') fruitless = Number.NEGATIVE_INFINITY;
    }
    if (result.outcome !== 'retry') continue;
    fruitless += 1;
    if (someToBlame && fruitless < MAX_FRUITLESS) continue;
    if (someToBlame && !areSpread) {
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
    const after = result.afterMs === undefined ? {} : { afterMs: result.afterMs };
    notReached = { outcome: 'retry', reason: `not reached: ${result.reason}`, ...after };
    break;
  }
  return batch.map((delivery) => results.get(delivery) ?? notReached);
}

/** At most `count` from all over the list. */
function spread(deliveries: readonly Delivery[], count: number): readonly Delivery[] {
  const stride = Math.max(1, Math.ceil(deliveries.length / count));
  return deliveries.filter((_delivery, at) => at % stride === 0);
}

/** For what a call asks of its place at most once, and only when it has to: whether it refuses everything. */
export function memoize<Value>(ask: () => Promise<Value>): () => Promise<Value> {
  let asked: Promise<Value> | undefined;
  return () => {
    asked ??= ask();
    return asked;
  };
}
