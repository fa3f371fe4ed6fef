import { asReceived, type DeliveryResult } from '@tributary/core';
import type { MadeCall, Piece } from './attempt.ts';
import type { CallLimits } from './gate.ts';
import type { Target, Unreachable } from './target.ts';

/** What came of asking for a call: it was made, or there was none to be had. */
export type Attempted = MadeCall | Unreachable | 'circuit open';

/** A delivery that asks for a call. Of one piece with whatever else its owner keeps of it: thousands wait. */
export interface Waiting extends Piece {
  /** For the calls: since when it waits, ms of a clock that never goes back, and what carries it. */
  since: number;
  call: Call | undefined;
  /** Whether its rule stopped it while it waited for a call. It is settled then, and no call is made. */
  isStopped(): boolean;
  /** The wait for a call to begin is over. */
  begun(): void;
  /** What came of it, once. */
  attempted(made: Attempted): void;
  /** In place of that: it is no delivery. */
  fail(error: unknown): void;
}

/** A call under way. */
export interface Call {
  readonly batch: readonly Waiting[];
  readonly target: Target;
  readonly limits: CallLimits;
  /** How many of the batch somebody still waits for. */
  awaited: number;
  readonly controller: AbortController;
  /** Epoch ms, and ms of the clock that never goes back. */
  readonly startedAt: number;
  readonly began: number;
}

const CONNECTOR_FAILED: DeliveryResult = { outcome: 'retry', reason: 'the connector failed' };

/** Those that a connector can be given. One that cannot be read is told so, and takes no other with it. */
export function readable(batch: readonly Waiting[]): readonly Waiting[] {
  return batch.filter((waiting) => {
    try {
      return waiting.stored.delivery !== undefined;
    } catch (error) {
      waiting.fail(error);
      return false;
    }
  });
}

/**
 * One for each of the batch. A connector that throws has a fault of its own: `tell` is told, and the deliveries are
 * retried, so that people see it and none is lost.
 */
export async function resultsOf(
  { batch, target: { connector, destination }, controller: { signal } }: Call,
  tell: (error: unknown) => void,
): Promise<readonly DeliveryResult[]> {
  try {
    const results = await connector.deliver(destination, batch.map(deliveryOf), { signal });
    return results.length === batch.length ? results : batch.map((_, at) => results[at] ?? CONNECTOR_FAILED);
  } catch (error) {
    tell(error);
    return batch.map(() => CONNECTOR_FAILED);
  }
}

/** Most calls have one result for all that they carry: they share what they are told. */
export function tellResults(
  batch: readonly Waiting[],
  results: readonly DeliveryResult[],
  { startedAt, durationMs }: Omit<MadeCall, 'result'>,
): void {
  let made: MadeCall | undefined;
  batch.forEach((waiting, at) => {
    const result = results[at] ?? CONNECTOR_FAILED;
    if (made?.result !== result) made = { result, startedAt, durationMs };
    waiting.attempted(made);
  });
}

const deliveryOf = ({ stored }: Waiting) => asReceived(stored.delivery);

const GONE = 410;

/** Kinds whose answers are to one event: what is gone is a device, a recipient or a list of a service that goes on. */
const ANSWERING_FOR_EVENTS = 'segment-';

/** Whether a destination answered that it is gone for good: Standard Webhooks has the sender stop then. */
export function isGone({ outcome, status }: DeliveryResult, type: string): boolean {
  return outcome === 'dead' && status === GONE && !type.startsWith(ANSWERING_FOR_EVENTS);
}

/** The same with the deliveries kept that a destination refused as it is gone: they wait with those behind them. */
export function keptFromGone(results: readonly DeliveryResult[]): readonly DeliveryResult[] {
  // Most calls have one result for all that they carry, and are told it as one.
  const kept = new Map<DeliveryResult, DeliveryResult>();
  for (const result of results)
    if (result.outcome === 'dead' && result.status === GONE)
      kept.set(result, { ...result, outcome: 'retry' });
  return results.map((result) => kept.get(result) ?? result);
}
