import type { JsonObject } from '../event/event.ts';
import type { HistoryEntry } from '../ports/history.ts';

/** Progress of a replay in one partition of its topic: from `from` up to, not including, `end`. */
export interface ReplayCursor {
  readonly partition: number;
  readonly from: number;
  readonly next: number;
  readonly end: number;
}

/**
 * Phases of a replay of rejected events that may be older than the dedupe window: `mark` records the ids of the
 * rejected events, `compare` finds out which of these were accepted since, and `evaluate` does the same as a replay
 * of recent events.
 */
const REEVALUATION_PHASES = ['mark', 'compare', 'evaluate'] as const;

type ReevaluationPhase = (typeof REEVALUATION_PHASES)[number];

/**
 * Value of an entry on `replays`: the progress of a replay, which continues while it is `running`. Each step is
 * committed together with the events that it sent, so a process that continues from the newest step neither repeats
 * nor skips any.
 */
export interface ReplayStep {
  readonly replay_id: string;
  readonly workspace_id: string;
  /** 0 is the initial step, which has read nothing. */
  readonly number: number;
  readonly status: 'running' | 'finished' | 'cancelled' | 'failed';
  /** The reason of a failure. */
  readonly reason?: string;
  readonly cursors: readonly ReplayCursor[];
  /** Events read, including those of other workspaces, and events sent. */
  readonly looked_at: number;
  readonly events: number;
  /** Events that are still rejected, in a replay of rejected events. */
  readonly still_rejected?: number;
  /** The catalog position of the evaluation, in a replay of rejected events. */
  readonly catalog_position?: number;
  readonly phase?: ReevaluationPhase;
  /** By the loader of this warehouse, which goes on with it. */
  readonly loaded_into?: string;
  /** When the replay was created and when this step was made, ISO 8601. */
  readonly created_at: string;
  readonly at: string;
}

/** The share of its range that a replay has read, 0 to 1. Phases count equally. */
export function replayProgress({
  cursors,
  status,
  phase,
}: Pick<ReplayStep, 'cursors' | 'status' | 'phase'>): number {
  if (status === 'finished') return 1;
  const sum = (of: (cursor: ReplayCursor) => number) => cursors.reduce((total, each) => total + of(each), 0);
  const all = sum(({ from, end }) => end - from);
  const share = all === 0 ? 0 : sum(({ from, next }) => next - from) / all;
  if (phase === undefined) return share;
  return (REEVALUATION_PHASES.indexOf(phase) + share) / REEVALUATION_PHASES.length;
}

/** The history entry of a replay: its newest step. */
export function historyEntryOfReplay(step: ReplayStep): HistoryEntry {
  return {
    kind: 'replay',
    id: step.replay_id,
    workspaceId: step.workspace_id,
    at: Date.parse(step.created_at),
    version: step.number,
    facets: {},
    body: step as unknown as JsonObject,
  };
}

/** Interval between steps, ms. */
export const REPLAY_TICK_MS = 250;

/** Bounds on the events a second of a replay. */
export const MAX_REPLAY_RATE = 4_000;
export const DEFAULT_REPLAY_RATE = 100;

/**
 * A replay that was created longer ago is not started, ms: a consumer group that lost its position reads the catalog
 * from its start and must not repeat old replays.
 */
export const REPLAY_START_DEADLINE_MS = 24 * 3_600_000;

/** Bound on concurrent replays of a workspace: each reads the events of all workspaces. */
export const MAX_RUNNING_REPLAYS = 2;
