import type { LogEntry, NewEntry } from './event-log.ts';
import type { OutputRecord } from './stage.ts';
import { TOPIC } from './topics.ts';

/** Number of throws, other than `Unavailable`, after which an entry is poison. */
export const POISON_ATTEMPTS = 3;

/** Value of an entry on `stages.dead`. */
export interface DeadLetterRecord {
  readonly stage: string;
  readonly position: LogEntry['position'];
  /** When the log appended the entry, epoch ms. Absent in records of older releases. */
  readonly timestamp?: number;
  readonly error: string;
  /** When the stage dead-lettered the entry, ISO 8601. */
  readonly at: string;
  /**
   * True when value and headers are omitted, because they are too large or must not be copied; the entry is at its
   * position.
   */
  readonly omitted?: true;
  readonly entry: NewEntry;
}

const MAX_ERROR_LENGTH = 2_000;

/** The output record for `stages.dead` of a dead-lettered entry; `at` is ISO 8601. */
export function deadLetterOf(stage: string, entry: LogEntry, error: string, at: string): OutputRecord {
  const { key, value, headers, position, timestamp } = entry;
  const record: DeadLetterRecord = {
    stage,
    position,
    timestamp,
    error: error.slice(0, MAX_ERROR_LENGTH),
    at,
    entry: { key, value, headers },
  };
  return { topic: TOPIC.poison, key, value: JSON.stringify(record), headers };
}

/**
 * The same without the entry's value and headers: for an entry that `stages.dead` cannot hold, or that is no longer
 * available. The record names the position; the source topic keeps the entry for its retention.
 */
export function deadLetterWithoutEntry(
  stage: string,
  { position, timestamp, key }: Pick<LogEntry, 'position' | 'key'> & { readonly timestamp?: number },
  error: string,
  at: string,
): OutputRecord {
  const record: DeadLetterRecord = {
    stage,
    position,
    ...(timestamp === undefined ? {} : { timestamp }),
    error: error.slice(0, MAX_ERROR_LENGTH),
    at,
    omitted: true,
    entry: { key, value: '', headers: {} },
  };
  return { topic: TOPIC.poison, key, value: JSON.stringify(record), headers: {} };
}

/** Parses an entry of `stages.dead`; undefined for anything else. */
export function readDeadLetter({ value }: Pick<NewEntry, 'value'>): DeadLetterRecord | undefined {
  try {
    const record = JSON.parse(value) as Partial<DeadLetterRecord>;
    const { stage, position, error, at, entry } = record;
    const isWhole =
      typeof stage === 'string' &&
      typeof error === 'string' &&
      !Number.isNaN(Date.parse(at ?? '')) &&
      typeof position?.topic === 'string' &&
      Number.isSafeInteger(position.partition) &&
      Number.isSafeInteger(position.offset) &&
      typeof entry?.key === 'string' &&
      typeof entry.value === 'string' &&
      typeof entry.headers === 'object' &&
      entry.headers !== null;
    return isWhole ? (record as DeadLetterRecord) : undefined;
  } catch {
    return undefined;
  }
}

/** The dead-lettered entry as its stage received it. */
export function deadLetteredEntry({ entry, position, timestamp, at }: DeadLetterRecord): LogEntry {
  return { ...entry, position, timestamp: timestamp ?? Date.parse(at) };
}
