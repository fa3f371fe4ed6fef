import {
  type CanonicalEvent,
  type Catalog,
  defined,
  ENVIRONMENTS,
  type Environment,
  EVENT_TYPES,
  type EventLog,
  type EventType,
  eventName,
  HEADER,
  iso,
  type LogEntry,
  organizationOf,
  type RejectedEvent,
  recordChars,
  TOPIC,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { disconnectSignal, FairSemaphore, TENANT_TURNS } from '../limits/turns.ts';
import {
  boolean,
  closed,
  freeObject,
  type IntegerRule,
  integer,
  integerText,
  listOf,
  nullable,
  oneOf,
  operation,
  parseInteger,
  parseTime,
  shownAs,
  time,
  timeText,
} from '../resources/schemas.ts';

const LIMIT: IntegerRule = { name: 'limit', min: 1, max: 100, fallback: 20 };
const DAY_MS = 24 * 60 * 60 * 1000;
/** The values of an answer end after this many characters: events may be large. */
const MAX_CHARACTERS = 2 * 1024 * 1024;
/** A scan keeps at most this many times the limit of the events that it visits until it ends. */
const KEPT = 4;

export const SINCE = 'ISO 8601: events received then or later. Default: 24 hours ago.';

/** The time that `SINCE` describes, epoch ms. 400 for one that is not valid. */
export function sinceOf(path: string, stated: string | null | undefined, now: number): number {
  return parseTime(path, stated ?? undefined) ?? now - DAY_MS;
}

/** The parameter `events`: how many recent events are read. */
export const EVENTS: IntegerRule = { name: 'events', min: 1, max: 10_000, fallback: 1_000 };

export const coverage = Type.Object(
  {
    since: time,
    oldest: nullable(time),
    newest: nullable(time),
    omitted: integer(
      'Of the events, those that had lost undeclared fields to `omit`: they were seen without.',
    ),
    records: integer('Entries of the log that were read, of every workspace.'),
    bytes: Type.Integer(),
    complete: boolean('Every event since then was read.'),
    stopped_by: nullable(oneOf(['events', 'records', 'bytes', 'time'])),
  },
  { title: 'Coverage', description: 'How much of the log was read.' },
);

const recentQuery = closed({
  limit: integerText(LIMIT, 'Events at most.'),
  event_type: Type.Optional(oneOf(EVENT_TYPES, 'Default: all.')),
  event_name: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1_000,
      description: 'Of a track event, page or screen. Default: all.',
    }),
  ),
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
  outcome: Type.Optional(oneOf(['accepted', 'rejected'], 'Default: both.')),
  since: Type.Optional(timeText('ISO 8601; received then or later. Default: a day ago.')),
});

const recentEvents = Type.Object(
  {
    events: listOf(
      freeObject('An event as the stages see it, with `received_at` and `environment`.'),
      'The newest of those that were read, newest first: each partition of the log was read as far back.',
    ),
    coverage,
  },
  { title: 'RecentEvents' },
);

export function presentCoverage({ since }: RecentEventsQuery, read: Coverage) {
  const { stoppedBy } = read;
  return shownAs(coverage, read, {
    since: iso(since),
    complete: stoppedBy === null,
    stopped_by: stoppedBy,
  });
}

type Query = Static<typeof recentQuery>;

function eventsOf(workspaceId: string, query: Query, now: number): RecentEventsQuery {
  const { event_type, event_name, environment, outcome } = query;
  return {
    workspaceId,
    ...defined({ type: event_type, environment, outcome }),
    since: sinceOf('since', query.since, now),
    limit: parseInteger(query.limit, LIMIT),
    isNewest: true,
    isWanted: (event) => event_name === undefined || eventName(event) === event_name,
  };
}

function newest(events: readonly CanonicalEvent[], limit: number): CanonicalEvent[] {
  return events.toSorted((a, b) => (a.received_at < b.received_at ? 1 : -1)).slice(0, limit);
}

/** The first, up to the size of an answer; at least one. */
function withinSize(events: readonly CanonicalEvent[]): readonly CanonicalEvent[] {
  let left = MAX_CHARACTERS;
  return events.filter((event, index) => {
    left -= JSON.stringify(event).length;
    return index === 0 || left >= 0;
  });
}

/** `GET /workspaces/:workspaceId/recent-events`: events to try filters, transformations and contracts with. */
export const recentEventRoutes: Routes = async (app, dependencies) => {
  const { clock } = dependencies;
  const recent = new RecentEvents(dependencies);
  app.get(
    '/workspaces/:workspaceId/recent-events',
    operation('events.recent', 'listRecentEvents', 'Read some recent events, as samples', {
      querystring: recentQuery,
      response: { 200: recentEvents },
    }),
    async (request, reply) => {
      const query = eventsOf(request.workspace.id, request.query, clock());
      let events: CanonicalEvent[] = [];
      const visit = (event: CanonicalEvent) => {
        events.push(event);
        if (events.length >= KEPT * query.limit) events = newest(events, query.limit);
        return undefined;
      };
      const read = await recent.scan(query, visit, disconnectSignal(reply));
      return {
        events: withinSize(newest(events, query.limit)) as unknown as Static<typeof recentEvents>['events'],
        coverage: presentCoverage(query, read),
      };
    },
  );
};

type ScanBudget = Readonly<typeof SCAN_BUDGET>;

export const SCAN_BUDGET = {
  /** Entries of the log, of all workspaces. */
  maxRecords: 200_000,
  maxBytes: 64 * 1024 * 1024,
  maxMs: 3_000,
};

/** How long a scan may wait for its turns in addition, as a multiple of its time. */
const MAX_EXTENSION = 3;
/** Scans of one process at a time, as each holds a read's bytes; and those that wait, in all and of one workspace. */
const CONCURRENCY = { concurrency: 2, maxWaiting: 8, maxWaitingPerOwner: 4, retryAfterSeconds: 3 };
/** Bytes of one read: the embedded log reads on the thread that serves requests, for some ms at most. */
const READ_BYTES = 256 * 1024;
/** Offsets of the first range of a partition that is read, at most; each further range is twice as long, up to the maximum. */
const FIRST_RANGE = 200;
const MAX_RANGE = 3_200;

export interface RecentEventsQuery {
  readonly workspaceId: string;
  /** Absent: all. */
  readonly type?: EventType;
  /** Whether only accepted, or only rejected events are read. Absent: both. */
  readonly outcome?: 'accepted' | 'rejected';
  /** Absent: both. */
  readonly environment?: Environment;
  /** Epoch ms: received at or after this time. */
  readonly since: number;
  readonly limit: number;
  /**
   * The newest are among them: once there are as many as the limit, the scan continues until all partitions were read as far
   * back, and the visitor gets more. Default: it ends at the limit.
   */
  readonly isNewest?: boolean;
  /** A further condition on events of that type and environment. */
  isWanted(event: CanonicalEvent): boolean;
}

/** How much of the log a scan read. */
export interface Coverage {
  readonly events: number;
  /** `received_at` of the first and last of them. */
  readonly oldest: string | null;
  readonly newest: string | null;
  /** Events whose contract had omitted fields: they were found without these. */
  readonly omitted: number;
  readonly records: number;
  readonly bytes: number;
  /** The bound that ended the scan; null when everything since the requested time was read. */
  readonly stoppedBy: 'events' | 'records' | 'bytes' | 'time' | null;
}

/** Called with each event. A returned promise is awaited before the next event. */
type Visitor = (event: CanonicalEvent) => Promise<void> | undefined;

/**
 * Finds the recent events of a workspace that were accepted or rejected, beginning with the end of every partition.
 * Received events that are not validated yet are not included. The log is shared by all workspaces and has no index for
 * this, so a scan is bounded in entries, bytes and time, takes turns with other organizations, and reports its coverage.
 */
export class RecentEvents {
  readonly #log: EventLog;
  readonly #catalog: Pick<Catalog, 'state'>;
  readonly #budget: ScanBudget;
  readonly #semaphore = new FairSemaphore(CONCURRENCY);

  constructor(
    { log, catalog }: { log: EventLog; catalog: Pick<Catalog, 'state'> },
    budget: ScanBudget = SCAN_BUDGET,
  ) {
    this.#log = log;
    this.#catalog = catalog;
    this.#budget = budget;
  }

  /**
   * Calls `visitor` with the events. The time budget begins when the scan starts.
   *
   * Errors: 429 while too many scans wait, and when the client disconnects before its scan starts; `Unavailable` when
   * the log does not answer.
   */
  scan(query: RecentEventsQuery, visitor: Visitor, disconnected: AbortSignal): Promise<Coverage> {
    const owner = organizationOf(this.#catalog.state, query.workspaceId);
    return this.#semaphore.run(owner, disconnected, () =>
      this.#scan(owner, query, new Scan(query, visitor, this.#budget)),
    );
  }

  async #scan(
    owner: string,
    { since, outcome, limit, isNewest }: RecentEventsQuery,
    scan: Scan,
  ): Promise<Coverage> {
    const firstRange = isNewest === true ? Math.min(limit, FIRST_RANGE) : FIRST_RANGE;
    const topics = outcome === undefined ? [TOPIC.accepted, TOPIC.rejected] : [TOPIC[outcome]];
    let open = await Promise.all(
      topics.flatMap((topic) =>
        Array.from({ length: this.#log.topics.get(topic)?.partitions ?? 0 }, (_, partition) =>
          BackwardReader.open(this.#log, { topic, partition, since, firstRange }),
        ),
      ),
    );
    for (; open.length > 0; open = open.filter(({ isDone }) => !isDone)) {
      for (const partition of open) {
        for await (const entries of partition.nextRange(READ_BYTES))
          if (!(await TENANT_TURNS.runSteps(owner, scan.takeEach(entries)))) return scan.coverage;
      }
      if (scan.endRound()) return scan.coverage;
    }
    return scan.coverage;
  }
}

class Scan {
  readonly coverage: { -readonly [Name in keyof Coverage]: Coverage[Name] } = {
    events: 0,
    oldest: null,
    newest: null,
    omitted: 0,
    records: 0,
    bytes: 0,
    stoppedBy: null,
  };
  readonly #query: RecentEventsQuery;
  readonly #visitor: Visitor;
  readonly #budget: ScanBudget;
  #deadline: number;
  #extensionLeft: number;
  /** The visitor's promise for the last event, if it returned one. */
  #visiting: Promise<void> | undefined;

  constructor(query: RecentEventsQuery, visitor: Visitor, budget: ScanBudget) {
    this.#query = query;
    this.#visitor = visitor;
    this.#budget = budget;
    this.#deadline = performance.now() + budget.maxMs;
    this.#extensionLeft = budget.maxMs * MAX_EXTENSION;
  }

  /**
   * A step takes one entry, and gives the promise of its visitor. The result is false when the scan ends with one of them.
   * `from`: since when it waits for its turn.
   */
  *takeEach(
    entries: readonly LogEntry[],
    from = performance.now(),
  ): Generator<Promise<void> | undefined, boolean> {
    let waitsFrom: number | undefined = from;
    for (const entry of entries) {
      if (waitsFrom !== undefined) this.#extendBy(performance.now() - waitsFrom);
      const continues = this.#take(entry);
      waitsFrom = this.#visiting === undefined ? performance.now() : undefined;
      yield this.#visiting;
      if (!continues) return false;
    }
    return true;
  }

  /** Time in which others had the thread is not part of the budget, up to a bound. */
  #extendBy(ms: number): void {
    const granted = Math.min(Math.max(ms, 0), this.#extensionLeft);
    this.#extensionLeft -= granted;
    this.#deadline += granted;
  }

  /** False when the scan ends with this entry. */
  #take(entry: LogEntry): boolean {
    const { coverage } = this;
    coverage.records++;
    coverage.bytes += recordChars(entry);
    this.#visiting = undefined;
    const event = this.#eventIn(entry);
    if (event !== undefined && entry.headers[HEADER.outcome] === 'omitted') coverage.omitted++;
    if (event !== undefined && !this.#visit(event)) coverage.stoppedBy = 'events';
    else if (coverage.records >= this.#budget.maxRecords) coverage.stoppedBy = 'records';
    else if (coverage.bytes >= this.#budget.maxBytes) coverage.stoppedBy = 'bytes';
    else if (performance.now() >= this.#deadline) coverage.stoppedBy = 'time';
    return coverage.stoppedBy === null;
  }

  /** All partitions were read as far back. True when the scan ends with them. */
  endRound(): boolean {
    if (this.coverage.events >= this.#query.limit) this.coverage.stoppedBy = 'events';
    return this.coverage.stoppedBy !== null;
  }

  /** Most entries belong to other workspaces; their headers show it, so that their values are not parsed. */
  #eventIn({ headers, value, position }: LogEntry): CanonicalEvent | undefined {
    const { workspaceId, type, environment, since } = this.#query;
    if (headers[HEADER.workspaceId] !== workspaceId) return undefined;
    if (type !== undefined && headers[HEADER.type] !== type) return undefined;
    if (environment !== undefined && headers[HEADER.environment] !== environment) return undefined;
    const stored: unknown = JSON.parse(value);
    const event =
      position.topic === TOPIC.rejected ? (stored as RejectedEvent).event : (stored as CanonicalEvent);
    return Date.parse(event.received_at) >= since && this.#query.isWanted(event) ? event : undefined;
  }

  #visit(event: CanonicalEvent): boolean {
    const { coverage } = this;
    coverage.events++;
    const { received_at: at } = event;
    if (coverage.oldest === null || at < coverage.oldest) coverage.oldest = at;
    if (coverage.newest === null || at > coverage.newest) coverage.newest = at;
    this.#visiting = this.#visitor(event);
    return this.#query.isNewest === true || coverage.events < this.#query.limit;
  }
}

interface PartitionOptions {
  readonly topic: string;
  readonly partition: number;
  /** Epoch ms. */
  readonly since: number;
  readonly firstRange: number;
}

/**
 * Reads one partition from its current end towards its beginning, range by range, as a log is only read forwards. Within
 * a range the entries are in order.
 */
class BackwardReader {
  readonly #log: Pick<EventLog, 'read'>;
  readonly #topic: string;
  readonly #partition: number;
  /** Entries below are not retained, or were appended before the requested time. */
  readonly #low: number;
  #high: number;
  #length: number;

  private constructor(
    log: Pick<EventLog, 'read'>,
    { topic, partition, firstRange }: PartitionOptions,
    { low, high }: { readonly low: number; readonly high: number },
  ) {
    this.#length = firstRange;
    this.#log = log;
    this.#topic = topic;
    this.#partition = partition;
    this.#low = low;
    this.#high = high;
  }

  /** Covers the entries that were appended since a time until now. */
  static async open(
    log: Pick<EventLog, 'read' | 'end' | 'first' | 'offsetAt'>,
    options: PartitionOptions,
  ): Promise<BackwardReader> {
    const { topic, partition, since } = options;
    const high = await log.end(topic, partition);
    const first = await log.first(topic, partition);
    const low = first < high ? Math.max(first, await log.offsetAt(topic, partition, since)) : high;
    return new BackwardReader(log, options, { low, high });
  }

  get isDone(): boolean {
    return this.#high <= this.#low;
  }

  /** The range before the last one, in pieces of about `maxBytes`. */
  async *nextRange(maxBytes: number): AsyncGenerator<readonly LogEntry[]> {
    const from = Math.max(this.#low, this.#high - this.#length);
    for (let next = from; next < this.#high; ) {
      const read = await this.#log.read(this.#topic, this.#partition, next, { maxBytes });
      const entries = read.entries.filter(({ position }) => position.offset < this.#high);
      if (entries.length > 0) yield entries;
      // A read that does not advance has reached the end of what is readable.
      next = read.next > next ? read.next : this.#high;
    }
    this.#high = from;
    this.#length = Math.min(2 * this.#length, MAX_RANGE);
  }
}
