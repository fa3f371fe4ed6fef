import { murmur2 } from '../log/record-layout.ts';
import { InvalidInput } from '../primitives/errors.ts';

/** One retry topic: its step as written in the schedule (`label`, of `deliveries.retry.<label>`) and how long a record waits there, ms. */
export interface RetryStep {
  readonly label: string;
  readonly ms: number;
}

/** Shortest first, never empty. */
export type RetrySchedule = readonly [RetryStep, ...RetryStep[]];

export const DEFAULT_RETRY_STEPS = ['10s', '1m', '10m', '1h', '6h'] as const;
export const DEFAULT_EXPIRY_MS = 24 * 3_600_000;

/** A wait is lengthened by this share at most, and never shortened. */
export const MAX_JITTER = 0.2;

const UNIT_MS = new Map([
  ['ms', 1],
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
]);

function parseStep(text: string): RetryStep {
  const match = /^([1-9]\d{0,5})(ms|s|m|h)$/.exec(text);
  const unit = UNIT_MS.get(match?.[2] ?? '');
  if (match === null || unit === undefined) {
    throw new InvalidInput(`"${text}" is no delay: write a number and ms, s, m or h, such as 10s`);
  }
  return { label: text, ms: Number(match[1]) * unit };
}

/**
 * Parses steps such as `10s`, `1m`, `6h`. Throws `InvalidInput` for an empty list, a malformed step, or one that is
 * not longer than the one before it.
 */
export function parseRetrySchedule(steps: readonly string[]): RetrySchedule {
  const [first, ...rest] = steps.map(parseStep);
  if (first === undefined) throw new InvalidInput('a retry schedule needs at least one delay');
  let before = first;
  for (const step of rest) {
    if (step.ms <= before.ms) throw new InvalidInput(`${step.label} must be longer than ${before.label}`);
    before = step;
  }
  return [first, ...rest];
}

/**
 * When a record of a retry topic may be tried, epoch ms: its delay after the log took it, lengthened by up to
 * `MAX_JITTER`. The jitter is derived from the id: every process and every replay waits the same time, while deliveries
 * that failed together come back at different times.
 */
export function dueAt(entryTimestamp: number, delayMs: number, deliveryId: string): number {
  const spread = (murmur2(Buffer.from(deliveryId, 'utf8')) >>> 0) / 2 ** 32;
  return entryTimestamp + delayMs + Math.floor(delayMs * MAX_JITTER * spread);
}
