import type { JsonObject } from '../event/event.ts';
import type { HistoryEntry } from '../ports/history.ts';

/** How far a replay is in one partition of the topic that it reads: from `from` up to, not including, `end`. */
export interface ReplayCursor {
  readonly partition: number;
  readonly from: number;
  readonly next: number;
  readonly end: number;
}

/**
 * What a replay of rejected events does first where the window of repeated ids may be over for some of them: `mark`
 * remembers the ids of the rejected events, `compare` finds out which of these were accepted since, and `evaluate` does
 * what a replay of recent events does alone.
 */
export const REEVALUATION_PHASES = ['mark', 'compare', 'evaluate'] as const;

export type ReevaluationPhase = (typeof REEVALUATION_PHASES)[number];

/**
 * Value of an entry on `replays`: how far a replay has come, and that it is to go on while it is `running`. Each step
 * is committed together with the events it sent on, so whoever takes up the newest one neither repeats nor skips any.
 */
export interface ReplayStep {
  readonly replay_id: string;
  readonly workspace_id: string;
  /** 0 is the first; it has read nothing. */
  readonly number: number;
  readonly status: 'running' | 'finished' | 'cancelled' | 'failed';
  /** Why it failed. */
  readonly reason?: string;
  readonly cursors: readonly ReplayCursor[];
  /** Events it read, those of other workspaces too, and those of them it sent on. */
  readonly looked_at: number;
  readonly events: number;
  /** Of a replay of rejected events: those that their contract still rejects. */
  readonly still_rejected?: number;
  /** Of a replay of rejected events: the catalog position by which they are evaluated. */
  readonly catalog_position?: number;
  readonly phase?: ReevaluationPhase;
  /** When the replay was asked for and when this step was made, ISO 8601. */
  readonly created_at: string;
  readonly at: string;
}

/** The share of its stretch of the log that a replay has read, 0 to 1. Phases count alike. */
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

/** What history keeps of a replay: its newest step. */
export function entryOfStep(step: ReplayStep): HistoryEntry {
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

/** How long a step comes after the one before it, ms. */
export const REPLAY_TICK_MS = 250;

/** Events a second that a replay may be asked to send on. */
export const MAX_REPLAY_RATE = 4_000;
export const DEFAULT_REPLAY_RATE = 100;

/**
 * A replay that was asked for longer ago is not begun, ms: a group that lost its position reads the catalog from its
 * start, and must not send again what was replayed long since.
 */
export const REPLAY_START_DEADLINE_MS = 24 * 3_600_000;

/** Replays of a workspace that are under way at a time, at most: each reads what all workspaces sent. */
export const MAX_RUNNING_REPLAYS = 2;
