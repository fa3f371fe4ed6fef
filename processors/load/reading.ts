import {
  type EventLog,
  EventLoopYielder,
  HEADER,
  type LogEntry,
  type LogRange,
  recordChars,
  TOPIC,
} from '@tributary/core';

/** Bytes of one read of the log. */
const READ_BYTES = 256 * 1024;
/** Bytes that are read for one batch at most, those of other workspaces included: then others have a turn. */
const MAX_READ_BYTES = 64 * 1024 * 1024;

/** Bounds on the entries of one batch. */
export interface BatchBounds {
  readonly entries: number;
  /** Characters of their values. */
  readonly bytes: number;
}

/** The records of one batch. */
export interface ReadRecords {
  readonly entries: readonly LogEntry[];
  /** What was read of the ranges; `more`: something is left. */
  readonly ranges: readonly LogRange[];
  /** Whether a bound was reached before the ends. */
  readonly more: boolean;
  /** When the log appended the last record that was read of each range, epoch ms; undefined where none was. */
  readonly lastAt: readonly (number | undefined)[];
  /** Characters of the entries. */
  readonly bytes: number;
}

interface ReadDependencies {
  readonly log: Pick<EventLog, 'read' | 'first'>;
  readonly elapsed: () => number;
  readonly signal: AbortSignal;
  /** Whether an entry is one of the workspace, by what is cheap to look at. */
  isOurs(entry: LogEntry): boolean;
}

/** Reads ranges, each partition in turn, until a bound is reached. */
export async function readRecords(
  { log, elapsed, signal, isOurs }: ReadDependencies,
  ranges: readonly LogRange[],
  bounds: BatchBounds,
): Promise<ReadRecords> {
  const next = new Map(ranges.map((range) => [range, range.from]));
  const lastAt = new Map<LogRange, number>();
  const entries: LogEntry[] = [];
  const thread = new EventLoopYielder(elapsed);
  let bytes = 0;
  let readBytes = 0;
  let open = ranges.filter(({ from, to }) => from < to);
  const isFull = () =>
    entries.length >= bounds.entries || bytes >= bounds.bytes || readBytes >= MAX_READ_BYTES;
  while (open.length > 0 && !isFull()) {
    for (const range of open) {
      if (isFull()) break;
      signal.throwIfAborted();
      const { topic, partition, to } = range;
      let at = next.get(range) ?? range.from;
      const read = await log.read(topic, partition, at, { maxBytes: READ_BYTES });
      let passed = Math.min(read.next, to);
      for (const entry of read.entries) {
        if (entry.position.offset >= to) break;
        if (isFull()) {
          passed = at;
          break;
        }
        at = entry.position.offset + 1;
        lastAt.set(range, entry.timestamp);
        const chars = recordChars(entry);
        readBytes += chars;
        if (isOurs(entry)) {
          entries.push(entry);
          bytes += chars;
        }
        if (thread.isYieldDue) await thread.yield();
      }
      at = Math.max(at, passed);
      // Without records: dropped meanwhile, or behind a transaction that is still open.
      const isStuck = at === next.get(range) && read.entries.length === 0;
      if (isStuck) at = Math.max(at, Math.min(await log.first(topic, partition), to));
      if (isStuck && at === next.get(range)) open = open.filter((other) => other !== range);
      next.set(range, at);
    }
    open = open.filter((range) => (next.get(range) ?? range.to) < range.to);
  }
  return {
    entries,
    ranges: ranges.map((range) => ({ ...range, to: next.get(range) ?? range.from })),
    more: isFull(),
    lastAt: ranges.map((range) => lastAt.get(range)),
    bytes,
  };
}

const PROFILE_CHANGE = /^\{"kind":"\w+","ucid":"[^"]*","orgId":(\d+),"region":("[^"\\]*")/;

/** Tells the records of a workspace: events by a header, changes of profiles by the start of their text. */
export function isOfWorkspace(
  workspaceId: string,
  profiles: { readonly org: number; readonly region: string } | undefined,
): (entry: LogEntry) => boolean {
  const region = JSON.stringify(profiles?.region ?? '');
  const org = String(profiles?.org ?? '');
  return ({ position: { topic }, headers, value }) => {
    if (topic !== TOPIC.profileChanges) return headers[HEADER.workspaceId] === workspaceId;
    const [, orgId, ofRegion] = PROFILE_CHANGE.exec(value) ?? [];
    return profiles !== undefined && orgId === org && ofRegion === region;
  };
}
