import {
  type Backoff,
  type Clock,
  deadLetterOf,
  deadLetterWithoutEntry,
  iso,
  type LogEntry,
  type Logger,
  MAX_VALUE_BYTES,
  type Metrics,
  messageOf,
  type OutputRecord,
  type Position,
  type StageContext,
  TOPIC,
  TributaryError,
} from '@tributary/core';
import type { InFlightEntries } from '../suspects/in-flight-table.ts';
import type { Committer } from './committer.ts';

/** The context of the work on one partition, whatever the engine. */
export interface Work {
  readonly stage: string;
  readonly writes: ReadonlySet<string>;
  readonly committer: Committer;
  /** The entries in flight, for the case that one of them ends the process. */
  readonly inFlight: InFlightEntries;
  /** Whether positions without output records may be stored later. */
  readonly positionsMayWait: boolean;
  /** The stage's `StageContext.signal`: once it fired no entry is dispatched or committed. */
  readonly signal: AbortSignal;
  /** Fires when no more entries are to be dispatched. */
  readonly stopping: AbortSignal;
  readonly context: StageContext;
  readonly backoff: Backoff;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/** Dead-letters an entry: the output records in place of the stage's own. */
export function deadLetter(work: Work, entry: LogEntry, thrown: unknown): readonly OutputRecord[] {
  const { stage, metrics, logger } = work;
  metrics.count('tributary_stage_dead_letters_total', { stage });
  const error = messageOf(thrown);
  logger.error({ stage, position: entry.position, error }, 'entry dead-lettered');
  return [deadLetterOf(stage, entry, error, iso(work.clock()))];
}

/** The output record where that of `deadLetter` is too large as well. */
export function deadLetterByPosition(
  work: Work,
  entry: Parameters<typeof deadLetterWithoutEntry>[1],
  thrown: unknown,
): OutputRecord {
  return deadLetterWithoutEntry(work.stage, entry, messageOf(thrown), iso(work.clock()));
}

/** Dead-letters an entry whose output records are too large, by its position alone. */
export function deadLetterTooLarge(
  work: Work,
  position: Position,
  key: string,
  thrown: unknown,
): OutputRecord {
  work.metrics.count('tributary_stage_dead_letters_total', { stage: work.stage });
  work.logger.error({ stage: work.stage, position, error: messageOf(thrown) }, 'entry dead-lettered');
  return deadLetterByPosition(work, { position, key }, thrown);
}

/** Dead-letters an entry that crashed the process while no other was in flight, without dispatching it again. */
export function quarantine(work: Work, entry: LogEntry, reason: string): readonly OutputRecord[] {
  work.metrics.count('tributary_stage_quarantined_total', { stage: work.stage });
  return deadLetter(work, entry, new Error(`not dispatched: it crashed the process twice (${reason})`));
}

/** The consequence of an error of a stage. */
export type Failure =
  /** An engine is unavailable: pause the partition and repeat the same, for as long as it takes. */
  | 'repeat'
  /** Read again from the offset in the error. */
  | 'rewind'
  /** Read again from the committed position. */
  | 'restart'
  /** The stage throws for an entry: find it, and dead-letter it after its attempts. */
  | 'throw';

/** `Overloaded` is treated as `Unavailable`: no entry is dead-lettered because an engine has no room. */
export function failureOf(thrown: unknown): Failure {
  if (!(thrown instanceof TributaryError)) return 'throw';
  switch (thrown.code) {
    case 'unavailable':
    case 'overloaded':
      return 'repeat';
    case 'rewind':
      return 'rewind';
    case 'fenced':
      return 'restart';
    default:
      return 'throw';
  }
}

/** Checks the output records of a stage; an error counts as a throw of the stage. */
export function checkOutputRecords(
  outputRecords: readonly OutputRecord[],
  writes: ReadonlySet<string>,
): void {
  for (const { topic, key, value } of outputRecords) {
    if (!writes.has(topic)) throw new Error(`output record to "${topic}", which the stage does not declare`);
    if (typeof key !== 'string') throw new Error(`output record without a key to "${topic}"`);
    // A UTF-16 unit has three bytes of UTF-8 at most.
    const size = value.length * 3 <= MAX_VALUE_BYTES ? 0 : Buffer.byteLength(value);
    // A dead letter is JSON within JSON, and is dead-lettered again where its redrive fails.
    if (size > MAX_VALUE_BYTES && topic !== TOPIC.poison)
      throw new Error(`output record of ${size} bytes to "${topic}" is too large`);
  }
}

export function outputBytes(outputRecords: readonly OutputRecord[]): number {
  let bytes = 0;
  for (const { key, value, headers } of outputRecords) {
    bytes += Buffer.byteLength(value) + key.length;
    // Headers of hundreds of rules, or of violations, are larger than the event.
    for (const name in headers) bytes += headers[name]?.length ?? 0;
  }
  return bytes;
}
