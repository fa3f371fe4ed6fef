import type { DeliveryResult } from '../connector/connector.ts';
import { InvalidInput } from '../errors/errors.ts';
import { murmur2 } from '../log/partitioner.ts';
import type { DeliveryAttempt } from './delivery.ts';

/** One retry topic: its label (`deliveries.retry.<label>`) and how long an entry waits there, ms. */
export interface LadderStep {
  readonly label: string;
  readonly ms: number;
}

/** Shortest first, never empty. */
export type Ladder = readonly [LadderStep, ...LadderStep[]];

export const DEFAULT_LADDER_LABELS = ['10s', '1m', '10m', '1h', '6h'] as const;
export const DEFAULT_EXPIRY_MS = 24 * 3_600_000;

/** A wait is lengthened by this share at most, and never shortened. */
export const MAX_JITTER = 0.2;

const UNIT_MS = new Map([
  ['ms', 1],
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
]);

function parseLabel(label: string): LadderStep {
  const match = /^([1-9]\d{0,5})(ms|s|m|h)$/.exec(label);
  const unit = UNIT_MS.get(match?.[2] ?? '');
  if (match === null || unit === undefined) {
    throw new InvalidInput(`"${label}" is no delay: write a number and ms, s, m or h, such as 10s`);
  }
  return { label, ms: Number(match[1]) * unit };
}

/** Reads labels such as `10s`, `1m`, `6h`. Throws `InvalidInput` for none, a malformed one, or one not longer than
 *  the one before it. */
export function parseLadder(labels: readonly string[]): Ladder {
  const [first, ...rest] = labels.map(parseLabel);
  if (first === undefined) throw new InvalidInput('a retry ladder needs at least one delay');
  let before = first;
  for (const step of rest) {
    if (step.ms <= before.ms) throw new InvalidInput(`${step.label} must be longer than ${before.label}`);
    before = step;
  }
  return [first, ...rest];
}

export interface RetryQuestion {
  /** Every attempt of the delivery, the one that just failed last. */
  readonly attempts: readonly DeliveryAttempt[];
  /** How that one failed. */
  readonly result: Exclude<DeliveryResult, { outcome: 'delivered' }>;
  /** `created_at` of the delivery, epoch ms. Attempts before it belong to an earlier drive and do not count. */
  readonly createdAt: number;
  readonly now: number;
  readonly ladder: Ladder;
  /** A failure this long after `createdAt` is the last. */
  readonly expiryMs: number;
}

export type NextStep =
  /** Try once more without waiting, and mark that attempt `at_once`. */
  | { readonly kind: 'again-now' }
  /** Wait in the retry topic of this label. `notBefore` is epoch ms; `dueAt` may lengthen it. */
  | { readonly kind: 'retry'; readonly label: string; readonly notBefore: number }
  | { readonly kind: 'dead'; readonly cause: 'destination' | 'expired'; readonly reason: string };

/**
 * What becomes of a delivery whose last attempt failed.
 *
 * A first attempt that met a reset connection is repeated at once. After that the waits climb the ladder and stay on
 * its last step until the delivery expires. A `Retry-After` is rounded up to the ladder, to its longest step when it
 * asks for more; it may skip steps, but never makes the wait shorter than the ladder would: a destination that always
 * asks for a second must not be asked ten thousand times a day.
 */
export function nextStep(question: RetryQuestion): NextStep {
  const { result, createdAt, now, ladder, expiryMs } = question;
  if (result.outcome === 'dead') return { kind: 'dead', cause: 'destination', reason: result.reason };
  if (now - createdAt >= expiryMs) {
    return { kind: 'dead', cause: 'expired', reason: `expired; last failure: ${result.reason}` };
  }
  const tried = question.attempts.filter((attempt) => Date.parse(attempt.at) >= createdAt);
  const repeated = question.attempts.at(-1)?.at_once === true;
  if (result.reset === true && tried.length <= 1 && !repeated) return { kind: 'again-now' };
  const climbed = tried.filter((attempt) => attempt.at_once !== true).length - 1;
  const step = ladderStep(ladder, climbed, result.afterMs ?? 0);
  return { kind: 'retry', label: step.label, notBefore: now + step.ms };
}

function ladderStep(ladder: Ladder, climbed: number, afterMs: number): LadderStep {
  const longEnough = ladder.findIndex((step) => step.ms >= afterMs);
  const asked = longEnough === -1 ? ladder.length - 1 : longEnough;
  return ladder[Math.min(Math.max(climbed, asked), ladder.length - 1)] ?? ladder[0];
}

/**
 * When an entry of a retry topic may be tried, epoch ms: its delay after the log took it, lengthened by up to
 * `MAX_JITTER`. The jitter comes from the id, so every process and every replay waits the same time, while the
 * deliveries that failed together come back apart.
 */
export function dueAt(entryTimestamp: number, delayMs: number, deliveryId: string): number {
  const spread = (murmur2(Buffer.from(deliveryId, 'utf8')) >>> 0) / 2 ** 32;
  return entryTimestamp + delayMs + Math.floor(delayMs * MAX_JITTER * spread);
}
