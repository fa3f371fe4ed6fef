import {
  type EventLog,
  type EventReference,
  formatPosition,
  HEADER,
  InvalidInput,
  type LogEntry,
  type Position,
  parsePosition,
  recordChars,
  referencedEventText,
  Unavailable,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';

/** A share of the retention: what is older is not referred to any more, so that retention removes nothing that waits. */
const REFERRED_SHARE = 1 / 4;

/** Whether a record of this time may be referred to. */
export function mayReferTo(timestamp: number, now: number, retentionMs: number): boolean {
  return now - timestamp <= retentionMs * REFERRED_SHARE;
}

/** Characters of records that a process keeps, at most, with a constant for each. */
const KEPT_CHARS = 16 * 1024 * 1024;
const RECORD_CHARS = 512;

/** Bytes of one read: records that are referred to together lie together in the log. */
const READ_BYTES = 64 * 1024;

/** Reads of the log at a time. */
const CONCURRENT_READS = 4;

/** A record that some callers wait for. */
interface Wanted {
  readonly position: Position;
  readonly name: string;
  readonly found: PromiseWithResolvers<LogEntry | undefined>;
}

/**
 * Reads single records that others refer to, for all stages of a process. A read brings the records behind it too, which
 * are kept for a while. Workspaces take turns, so the many references of one do not delay those of another.
 */
export class RecordReader {
  readonly #log: Pick<EventLog, 'read' | 'first' | 'end'>;
  readonly #kept = new LRUCache<string, LogEntry>({
    maxSize: KEPT_CHARS,
    sizeCalculation: (entry) => recordChars(entry) + RECORD_CHARS,
  });
  /** Records that are waited for, by position. */
  readonly #wanted = new Map<string, Wanted>();
  /** Those that no read was begun for, by workspace. The first workspace is next. */
  readonly #lines = new Map<string, Wanted[]>();
  #reads = 0;

  constructor(log: Pick<EventLog, 'read' | 'first' | 'end'>) {
    this.#log = log;
  }

  /**
   * The record of a workspace at a position; undefined where the log no longer has it, or has one of another workspace
   * there, as after its topic was made anew. `Unavailable` where the log does not answer.
   */
  async read(position: Position, workspaceId: string): Promise<LogEntry | undefined> {
    const entry = await this.#read(position, workspaceId);
    return entry?.headers[HEADER.workspaceId] === workspaceId ? entry : undefined;
  }

  #read(position: Position, workspaceId: string): Promise<LogEntry | undefined> {
    const name = formatPosition(position);
    const kept = this.#kept.get(name);
    if (kept !== undefined) return Promise.resolve(kept);
    const known = this.#wanted.get(name);
    if (known !== undefined) return known.found.promise;
    const wanted: Wanted = { position, name, found: Promise.withResolvers() };
    this.#wanted.set(name, wanted);
    const line = this.#lines.get(workspaceId);
    if (line === undefined) this.#lines.set(workspaceId, [wanted]);
    else line.push(wanted);
    if (this.#reads < CONCURRENT_READS) void this.#serve();
    return wanted.found.promise;
  }

  /** The JSON text of an event; undefined where the log no longer has it. */
  async eventText({ position }: EventReference, workspaceId: string): Promise<string | undefined> {
    const entry = await this.read(positionIn(position), workspaceId);
    return entry === undefined ? undefined : referencedEventText(entry);
  }

  /** Reads until nothing is wanted. The embedded log reads on this thread, which serves others in between. */
  async #serve(): Promise<void> {
    this.#reads += 1;
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      const { position, name, found } = next;
      try {
        const entry = this.#kept.get(name) ?? (await this.#fetch(position, name));
        found.resolve(entry);
      } catch (error) {
        found.reject(error);
      }
      this.#wanted.delete(name);
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.#reads -= 1;
  }

  #next(): Wanted | undefined {
    for (const [workspaceId, line] of this.#lines) {
      this.#lines.delete(workspaceId);
      const next = line.shift();
      if (line.length > 0) this.#lines.set(workspaceId, line);
      if (next !== undefined) return next;
    }
    return undefined;
  }

  async #fetch({ topic, partition, offset }: Position, name: string): Promise<LogEntry | undefined> {
    const { entries } = await this.#log.read(topic, partition, offset, { maxBytes: READ_BYTES });
    let found: LogEntry | undefined;
    for (const entry of entries) {
      const its = formatPosition(entry.position);
      if (its === name) found = entry;
      this.#kept.set(its, entry);
    }
    if (found !== undefined || entries.length > 0) return found;
    if (offset < (await this.#log.first(topic, partition))) return undefined;
    // Beyond the end of a log that was replaced.
    if (offset >= (await this.#log.end(topic, partition))) return undefined;
    throw new Unavailable(`the record ${name} cannot be read yet`);
  }
}

/** Throws `InvalidInput` for a text that is no position. */
export function positionIn(text: string): Position {
  const position = parsePosition(text);
  if (position === undefined) throw new InvalidInput(`"${text}" is no position`);
  return position;
}
