import type { AlertMeasurement, AlertRule, AlertState } from './alert.ts';
import { evaluateWatch, UNKNOWN_REASONS, type UnknownReason } from './evaluate.ts';
import { isQuiet } from './local-time.ts';
import { type AlertSeries, floorTo, HOUR_MS } from './series.ts';

/** A change that an alert would have reported. */
export interface DryRunChange extends AlertMeasurement {
  /** Epoch ms. */
  readonly at: number;
  readonly state: AlertState;
}

export interface AlertDryRun {
  readonly evaluations: number;
  readonly unknown: Readonly<Record<UnknownReason, number>>;
  readonly quiet: number;
  readonly changes: readonly DryRunChange[];
  readonly state: AlertState;
}

/**
 * Evaluates an alert at the end of each whole hour of a range, as if it had been there; without the pace of its notices. The
 * past is known by hours, so windows are of whole hours, and deliveries count by their present outcome.
 */
export function dryRunAlert(
  rule: AlertRule,
  past: Omit<AlertSeries, 'completeUntil'>,
  { from, to }: { readonly from: number; readonly to: number },
): AlertDryRun {
  const unknown = Object.fromEntries(UNKNOWN_REASONS.map((reason) => [reason, 0])) as Record<
    UnknownReason,
    number
  >;
  const changes: DryRunChange[] = [];
  let state: AlertState = 'ok';
  let evaluations = 0;
  let quiet = 0;
  for (let at = floorTo(from, HOUR_MS) + HOUR_MS; at <= to; at += HOUR_MS) {
    evaluations++;
    if (isQuiet(rule.quiet_hours, rule.time_zone, at)) {
      quiet++;
      continue;
    }
    const evaluation = evaluateWatch(rule, { ...past, completeUntil: at }, state);
    if (evaluation.state === 'unknown') unknown[evaluation.because]++;
    else if (evaluation.state !== state) {
      state = evaluation.state;
      const { value, limit, expected } = evaluation;
      changes.push({ at, state, value, limit, expected });
    }
  }
  return { evaluations, unknown, quiet, changes, state };
}
