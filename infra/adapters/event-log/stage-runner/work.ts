import {
  type Backoff,
  type Clock,
  deadLetterOf,
  deadLetterWithoutEntry,
  iso,
  type LogEntry,
  type Logger,
  type Metrics,
  messageOf,
  type OutputRecord,
  type Position,
  type StageContext,
} from '@tributary/core';
import type { InHand } from '../suspects/in-hand-table.ts';
import type { Committer } from './committer.ts';

/** What the work on one partition needs, whatever the engine. */
export interface Work {
  readonly stage: string;
  readonly writes: ReadonlySet<string>;
  readonly committer: Committer;
  /** Where the entries in the stage's hands are noted, for the case that the process ends over one. */
  readonly inHand: InHand;
  /** True where positions without emissions may wait to be stored. */
  readonly positionsMayWait: boolean;
  /** The stage's `StageContext.signal`: once it fired nothing more is handed over or committed. */
  readonly signal: AbortSignal;
  /** Fires when nothing new is to be begun. */
  readonly stopping: AbortSignal;
  /** What the log tells every stage of this partition. */
  readonly context: StageContext;
  readonly backoff: Backoff;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/** Gives an entry up: what to emit in place of the stage's own emissions. */
export function giveUp(work: Work, entry: LogEntry, thrown: unknown): readonly OutputRecord[] {
  const { stage, metrics, logger } = work;
  metrics.count('tributary_stage_dead_letters_total', { stage });
  const error = messageOf(thrown);
  logger.error({ stage, position: entry.position, error }, 'entry given up');
  return [deadLetterOf(stage, entry, error, iso(work.clock()))];
}

/** What to emit in place of what `giveUp` emits, where that is too large as well. */
export function withoutEntry(
  work: Work,
  entry: Parameters<typeof deadLetterWithoutEntry>[1],
  thrown: unknown,
): OutputRecord {
  return deadLetterWithoutEntry(work.stage, entry, messageOf(thrown), iso(work.clock()));
}

/** Gives an entry up whose emissions are too large, once only its position is known. */
export function giveUpTooLarge(work: Work, position: Position, key: string, thrown: unknown): OutputRecord {
  work.metrics.count('tributary_stage_dead_letters_total', { stage: work.stage });
  work.logger.error({ stage: work.stage, position, error: messageOf(thrown) }, 'entry given up');
  return withoutEntry(work, { position, key }, thrown);
}

/** Gives an entry up that ended the process while nothing else was in hand, without handing it over once more. */
export function quarantine(work: Work, entry: LogEntry, reason: string): readonly OutputRecord[] {
  work.metrics.count('tributary_stage_quarantined_total', { stage: work.stage });
  return giveUp(work, entry, new Error(`not handed over: it ended the process twice (${reason})`));
}
