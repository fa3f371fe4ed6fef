import { InvalidInput } from '../primitives/errors.ts';

/**
 * One retry topic: its step as written in the schedule (`label`, of `deliveries.retry.<label>`) and how long a record waits
 * there, ms.
 */
export interface RetryStep {
  readonly label: string;
  readonly ms: number;
}

/** Shortest first, never empty. */
export type RetrySchedule = readonly [RetryStep, ...RetryStep[]];

export const DEFAULT_RETRY_STEPS = ['10s', '1m', '10m', '1h', '6h'] as const;
export const DEFAULT_EXPIRY_MS = 24 * 3_600_000;

/** A retry topic for waits that are shorter than the schedule's, unless it begins with as short a step itself. */
const SHORT_STEP: RetryStep = { label: '1s', ms: 1_000 };

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

/** The delays of all retry topics of a schedule. Every record of one topic waits equally long, so they are due in order. */
export function retryDelays(schedule: RetrySchedule): RetrySchedule {
  return schedule[0].ms > SHORT_STEP.ms ? [SHORT_STEP, ...schedule] : schedule;
}

/** The labels of the retry topics of a schedule; none without steps. */
export function retryLabels(steps: readonly string[]): readonly string[] {
  return steps.length === 0 ? [] : retryDelays(parseRetrySchedule(steps)).map(({ label }) => label);
}

/** A wait made of several may end so much later, as a share of what is left of it; or by `LATE_MS`. */
const LATE_SHARE = 0.02;
const LATE_MS = 1_000;

/**
 * The delay to take next where a record must not be tried within the next `ms`: the longest that is no longer, or the one
 * that ends hardly later. When the record comes back too early, it takes another one. The shortest where all are longer.
 */
export function hopStep(delays: RetrySchedule, ms: number): RetryStep {
  const atMost = ms + Math.max(LATE_MS, ms * LATE_SHARE);
  const whole = delays.find((step) => step.ms >= ms && step.ms <= atMost);
  return whole ?? delays.findLast((step) => step.ms <= ms) ?? delays[0];
}
