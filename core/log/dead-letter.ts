import type { LogEntry, NewEntry } from './event-log.ts';
import type { OutputRecord } from './stage.ts';
import { TOPIC } from './topics.ts';

/** Throws that are not `Unavailable` before an entry is poison. */
export const POISON_ATTEMPTS = 3;

/** Value of an entry on `stages.dead`. */
export interface DeadLetterRecord {
  readonly stage: string;
  readonly position: LogEntry['position'];
  /** When the log took the entry, epoch ms. Absent from records of releases that did not say. */
  readonly timestamp?: number;
  readonly error: string;
  /** When it was given up, ISO 8601. */
  readonly at: string;
  /** Present: value and headers of the entry were left out, as they are too large; it is at its position. */
  readonly omitted?: true;
  readonly entry: NewEntry;
}

const MAX_ERROR_LENGTH = 2_000;

/** What goes to `stages.dead` for an entry that is given up; `at` is ISO 8601. */
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
 * The same for an entry that `stages.dead` cannot take, or that its stage is done with and nobody holds any more: the
 * record names its position and leaves out what it holds. Its topic keeps it for as long as its retention says.
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

/** The record an entry of `stages.dead` holds; undefined for anything else. */
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

/** The entry that was given up, as its stage was handed it. */
export function deadLetteredEntry({ entry, position, timestamp, at }: DeadLetterRecord): LogEntry {
  return { ...entry, position, timestamp: timestamp ?? Date.parse(at) };
}
