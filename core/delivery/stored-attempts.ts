import { iso } from '../primitives/time.ts';
import type { DeliveryAttempt } from './delivery.ts';

/** Bytes of the texts of all attempts of a delivery as JSON, at most: each record of the delivery carries them. */
const TEXT_BYTES = 320;
/** Of these for one reason, at most. */
const REASON_BYTES = 200;
/** Less than this is not worth keeping of a text. */
const LEAST_BYTES = 16;

/**
 * The attempts with texts that fit into a record together: those of the latest attempts are kept, and the same text counts
 * once.
 */
export function withBoundedTexts(attempts: readonly DeliveryAttempt[]): readonly DeliveryAttempt[] {
  const kept = new Map<string, string | undefined>();
  let left = TEXT_BYTES;
  const keep = (text: string | undefined, bytes: number) => {
    if (text === undefined) return undefined;
    if (!kept.has(text)) {
      const fitting = startOf(text, Math.min(left, bytes));
      left -= fitting === undefined ? 0 : jsonBytes(fitting);
      kept.set(text, fitting);
      if (fitting !== undefined) kept.set(fitting, fitting);
    }
    return kept.get(text);
  };
  const bounded = attempts.toReversed().map((attempt) => {
    const { reason: wholeReason, response: wholeResponse, ...rest } = attempt;
    const reason = keep(wholeReason, REASON_BYTES);
    const response = keep(wholeResponse, TEXT_BYTES);
    if (reason === wholeReason && response === wholeResponse) return attempt;
    return {
      ...rest,
      ...(reason === undefined ? {} : { reason }),
      ...(response === undefined ? {} : { response }),
    };
  });
  return bounded.reverse();
}

/** A reason as a record of its delivery has it. */
export function boundedText(reason: string): string {
  return startOf(reason, REASON_BYTES) ?? '';
}

function startOf(text: string, bytes: number): string | undefined {
  let size = jsonBytes(text);
  if (size <= bytes) return text;
  if (bytes < LEAST_BYTES) return undefined;
  let start = text;
  while (size > bytes) {
    start = start.slice(0, Math.min(start.length - 1, Math.floor((start.length * bytes) / size)));
    size = jsonBytes(`${start}...`);
  }
  return `${start}...`;
}

function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2;
}

const OUTCOMES = { retry: 0, dead: 1, delivered: 2 } as const;
const OUTCOME_NAMES = ['retry', 'dead', 'delivered', 'retry'] as const;
/** A throttled attempt, whose outcome is `retry`. */
const THROTTLED = 3;

/** Absent: that of the attempt before. */
type StoredText = string | null;

/** `at` is epoch ms of the first attempt, and of later ones the time since the one before. 0 is no status. */
export type StoredAttempt = readonly [
  at: number,
  durationMs?: number,
  status?: number,
  outcome?: number,
  atOnce?: number,
  reason?: StoredText | 0,
  response?: StoredText | 0,
];

/** The attempts in a form that takes a few bytes for one that is like the one before. */
export function storedAttempts(attempts: readonly DeliveryAttempt[]): readonly StoredAttempt[] {
  let before: DeliveryAttempt | undefined;
  return attempts.map((attempt) => {
    const { at, duration_ms, status = 0, outcome, throttled, at_once, reason, response } = attempt;
    const stored = [
      Date.parse(at) - (before === undefined ? 0 : Date.parse(before.at)),
      duration_ms,
      status,
      throttled === true ? THROTTLED : OUTCOMES[outcome],
      at_once === true ? 1 : 0,
      reason === before?.reason ? 0 : (reason ?? null),
      response === before?.response ? 0 : (response ?? null),
    ];
    before = attempt;
    while (stored.at(-1) === 0 && stored.length > 1) stored.pop();
    return stored as unknown as StoredAttempt;
  });
}

/** The attempts of `storedAttempts`. */
export function attemptsIn(stored: readonly StoredAttempt[]): readonly DeliveryAttempt[] {
  const attempts: DeliveryAttempt[] = [];
  let ms = 0;
  for (const [at, duration_ms = 0, status = 0, outcome = 0, atOnce = 0, reason = 0, response = 0] of stored) {
    ms += at;
    const before = attempts.at(-1);
    const text = (name: 'reason' | 'response', value: StoredText | 0) => {
      const found = value === 0 ? before?.[name] : value;
      return found === undefined || found === null ? {} : { [name]: found };
    };
    attempts.push({
      at: iso(ms),
      outcome: OUTCOME_NAMES[outcome] ?? 'retry',
      ...text('reason', reason),
      ...(status === 0 ? {} : { status }),
      ...text('response', response),
      duration_ms,
      ...(atOnce === 1 ? { at_once: true as const } : {}),
      ...(outcome === THROTTLED ? { throttled: true as const } : {}),
    });
  }
  return attempts;
}
