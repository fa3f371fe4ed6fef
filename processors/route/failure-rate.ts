import type { SandboxErrorKind } from '@tributary/core';

/** When a transformation counts as failing in production. */
export interface FailureLimits {
  /** The latest runs that are looked at. */
  readonly window: number;
  /** Runs in the window before a share of failures says anything. */
  readonly minimumRuns: number;
  /** Failing when more than this share of the window failed. */
  readonly share: number;
  /** Failing after this many timeouts or memory kills in a row: each costs its neighbours time. */
  readonly killsInARow: number;
}

export const DEFAULT_FAILURE_LIMITS: FailureLimits = {
  window: 100,
  minimumRuns: 20,
  share: 0.5,
  killsInARow: 5,
};

/** How one event's run ended; undefined = well. */
export type RunFailure = SandboxErrorKind | undefined;

/** The latest runs of one version of a transformation, oldest first; true = failed. */
export interface FailureRate {
  readonly runs: readonly boolean[];
  readonly killsInARow: number;
}

export const NO_RUNS: FailureRate = { runs: [], killsInARow: 0 };

export function afterRuns(
  rate: FailureRate,
  outcomes: readonly RunFailure[],
  limits: FailureLimits,
): FailureRate {
  let { killsInARow } = rate;
  for (const outcome of outcomes) {
    if (killsInARow >= limits.killsInARow) break;
    killsInARow = outcome === 'timeout' || outcome === 'memory' ? killsInARow + 1 : 0;
  }
  const runs = [...rate.runs, ...outcomes.map((outcome) => outcome !== undefined)].slice(-limits.window);
  return { runs, killsInARow };
}

export function isFailing(rate: FailureRate, limits: FailureLimits): boolean {
  if (rate.killsInARow >= limits.killsInARow) return true;
  const failed = rate.runs.filter(Boolean).length;
  return rate.runs.length >= limits.minimumRuns && failed > rate.runs.length * limits.share;
}
