import { type Clock, type Destination, hopStep, type Metrics, retryDelays } from '@tributary/core';
import type { DestinationQueue } from './destination-queue.ts';
import type { DeliveryTask, RetryPolicy, Settled } from './outcome.ts';
import { deferralDelay } from './policy/deferral.ts';

export interface DeferralParts {
  readonly policy: RetryPolicy;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/**
 * Defers a delivery without a step of the retry schedule, because its destination has no room for it, or asked to wait
 * `until` (epoch ms). It expires by how long there was no room for it, not by its age: time that it lay in the log is not
 * its destination's doing.
 */
export function defer(
  { clock, metrics, policy: { schedule, expiryMs } }: DeferralParts,
  { delivery, slot, deferredSince }: DeliveryTask,
  { type }: Pick<Destination, 'type'>,
  queue: Pick<DestinationQueue, 'slotFor' | 'noteNotAttempted'>,
  until?: number,
): Settled {
  queue.noteNotAttempted();
  const now = clock();
  // A clock may have been ahead.
  const since = Math.min(deferredSince ?? now, now);
  if (now - since >= expiryMs) {
    const reason = 'expired: its destination had no room for it';
    return { delivery, outcome: { kind: 'dead', cause: 'expired', reason } };
  }
  metrics.count('tributary_deliveries_total', { outcome: 'deferred', connector: type });
  const at = queue.slotFor(since, slot, until);
  const { label } = deferralDelay(retryDelays(schedule), { now, at, until });
  return { delivery, outcome: { kind: 'deferred', label, slot: Math.round(at), since } };
}

/** How much later than asked for a wait in the log may end, as a share of it and at least in ms: see `hopStep`. */
const LATE_SHARE = 0.02;
const LATE_MS = 1_000;

/**
 * How long a delivery is to wait for others in a batch that is not full, ms: until the interval has ended in which its
 * destination collects deliveries, and all deliveries of the interval are back from the log. Intervals are counted from 1970,
 * so that all processes agree on them, also after a restart. Negative afterwards.
 */
export function collectingMs(
  { clock }: Pick<DeferralParts, 'clock'>,
  { delivery }: Pick<DeliveryTask, 'delivery'>,
  intervalMs: number,
): number {
  const end = (Math.floor(Date.parse(delivery.created_at) / intervalMs) + 1) * intervalMs;
  const lateMs = lateMsOf(intervalMs);
  const leftMs = end + lateMs - clock();
  // A clock may have been ahead.
  return leftMs > intervalMs + lateMs ? 0 : leftMs;
}

function lateMsOf(ms: number): number {
  return Math.max(LATE_MS, ms * LATE_SHARE);
}

/**
 * Defers a delivery for that long: it waits in the log. First until hardly before, so that few records are written for a long
 * wait, and then exactly, so that the deliveries of an interval are back together.
 */
export function collected(
  { clock, metrics, policy: { schedule } }: DeferralParts,
  { delivery, deferredSince }: DeliveryTask,
  { type }: Pick<Destination, 'type'>,
  intervalMs: number,
  leftMs: number,
): Settled {
  const now = clock();
  metrics.count('tributary_deliveries_total', { outcome: 'deferred', connector: type });
  const lateMs = lateMsOf(intervalMs);
  const { label } = hopStep(retryDelays(schedule), leftMs > 2 * lateMs ? leftMs - lateMs : leftMs);
  return { delivery, outcome: { kind: 'deferred', label, slot: now + leftMs, since: deferredSince ?? now } };
}
