import {
  type CanonicalEvent,
  type Clock,
  type Environment,
  type EventLog,
  type EventType,
  HEADER,
  HeldThread,
  type LogEntry,
  type RejectedEvent,
  TOPIC,
} from '@tributary/core';
import { Turns } from '../limits/fair-semaphore.ts';
import { Backwards } from './backwards.ts';

/** What one look may take. */
export interface LookBudget {
  /** Entries of the log, whose ever they are. */
  readonly maxRecords: number;
  readonly maxBytes: number;
  readonly maxMs: number;
}

export const LOOK_BUDGET: LookBudget = {
  maxRecords: 200_000,
  maxBytes: 64 * 1024 * 1024,
  maxMs: 3_000,
};

/** Looks at a time in one process, as each has a read's bytes in memory; and who wait for one, of a workspace and in all. */
const TURNS = { atATime: 2, waiting: 8, waitingEach: 4, retryAfterSeconds: 3 };
/** Bytes of one read: on the embedded log the thread that serves requests reads, some ms at most. */
const READ_BYTES = 256 * 1024;

/** Which events are looked for. */
export interface RecentEventsQuery {
  readonly workspaceId: string;
  /** Absent: all. */
  readonly type?: EventType;
  /** Events that were rejected, too? Default true. */
  readonly withRejected?: boolean;
  /** Absent: both. */
  readonly environment?: Environment;
  /** Epoch ms: received then or later. */
  readonly since: number;
  readonly limit: number;
  /** Whether an event of that type and environment is one. */
  isWanted(event: CanonicalEvent): boolean;
}

/** What a look came to see. */
export interface Coverage {
  readonly events: number;
  /** `received_at` of the first and last of them. */
  readonly oldest: string | null;
  readonly newest: string | null;
  /** Those among them that had lost fields to the contract that judged them: they were seen without. */
  readonly omitted: number;
  readonly records: number;
  readonly bytes: number;
  /** What ended it; null when it saw all there is since the time asked for. */
  readonly stoppedBy: 'events' | 'records' | 'bytes' | 'time' | null;
}

/** Told of each event; the next one comes once what it answers has resolved. */
export type Look = (event: CanonicalEvent) => Promise<void> | undefined;

/**
 * Looks at the events of a workspace that were lately accepted or rejected, the last ones of every partition first.
 * The log is kept for all workspaces together and is not made for this, so a look is bounded in entries, bytes and
 * time, gives the thread back between reads, and says how far it came. Events that were received and are not judged
 * yet are not among them.
 */
export class RecentEvents {
  readonly #log: EventLog;
  readonly #clock: Clock;
  readonly #budget: LookBudget;
  readonly #turns = new Turns(TURNS);

  constructor(log: EventLog, clock: Clock, budget: LookBudget = LOOK_BUDGET) {
    this.#log = log;
    this.#clock = clock;
    this.#budget = budget;
  }

  /**
   * Waits for its turn, in which the time of the budget begins. A workspace that has a look under way waits behind those
   * that have none. 429 while too many wait, and for who is `gone`; `Unavailable` when the log does not answer.
   */
  look(query: RecentEventsQuery, look: Look, gone: AbortSignal): Promise<Coverage> {
    return this.#turns.take(query.workspaceId, gone, () =>
      this.#look(query, new Looking(query, look, this.#budget, this.#clock)),
    );
  }

  async #look({ since, withRejected = true }: RecentEventsQuery, looking: Looking): Promise<Coverage> {
    const topics = withRejected ? [TOPIC.accepted, TOPIC.rejected] : [TOPIC.accepted];
    let open = await Promise.all(
      topics.flatMap((topic) =>
        Array.from({ length: this.#log.topics.get(topic)?.partitions ?? 0 }, (_, partition) =>
          Backwards.open(this.#log, topic, partition, since),
        ),
      ),
    );
    const thread = new HeldThread(() => performance.now());
    for (; open.length > 0; open = open.filter(({ isDone }) => !isDone)) {
      for (const partition of open) {
        for await (const entries of partition.stretch(READ_BYTES)) {
          for (const entry of entries) {
            const wantsMore = looking.take(entry);
            if (looking.busy !== undefined) await looking.busy;
            if (!wantsMore) return looking.coverage;
            if (thread.isDueToRest) await thread.rest();
          }
          await thread.rest();
        }
      }
    }
    return looking.coverage;
  }
}

/** One look under way. */
class Looking {
  readonly #query: RecentEventsQuery;
  readonly #look: Look;
  readonly #budget: LookBudget;
  readonly #clock: Clock;
  readonly #until: number;
  #events = 0;
  #oldest: string | null = null;
  #newest: string | null = null;
  #omitted = 0;
  #records = 0;
  #bytes = 0;
  #stoppedBy: Coverage['stoppedBy'] = null;
  /** Until when the last event that was shown is dealt with, where that takes time. */
  busy: Promise<void> | undefined;

  constructor(query: RecentEventsQuery, look: Look, budget: LookBudget, clock: Clock) {
    this.#query = query;
    this.#look = look;
    this.#budget = budget;
    this.#clock = clock;
    this.#until = clock() + budget.maxMs;
  }

  get coverage(): Coverage {
    return {
      events: this.#events,
      oldest: this.#oldest,
      newest: this.#newest,
      omitted: this.#omitted,
      records: this.#records,
      bytes: this.#bytes,
      stoppedBy: this.#stoppedBy,
    };
  }

  /** False when it is not to be given more. */
  take(entry: LogEntry): boolean {
    this.#records++;
    this.#bytes += entry.value.length;
    this.busy = undefined;
    const event = this.#eventIn(entry);
    if (event !== undefined && entry.headers[HEADER.outcome] === 'omitted') this.#omitted++;
    if (event !== undefined && !this.#show(event)) this.#stoppedBy = 'events';
    else if (this.#records >= this.#budget.maxRecords) this.#stoppedBy = 'records';
    else if (this.#bytes >= this.#budget.maxBytes) this.#stoppedBy = 'bytes';
    else if (this.#clock() >= this.#until) this.#stoppedBy = 'time';
    return this.#stoppedBy === null;
  }

  /** Nearly all entries are others', which their headers tell before their values are read. */
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

  #show(event: CanonicalEvent): boolean {
    this.#events++;
    const { received_at: at } = event;
    if (this.#oldest === null || at < this.#oldest) this.#oldest = at;
    if (this.#newest === null || at > this.#newest) this.#newest = at;
    this.busy = this.#look(event);
    return this.#events < this.#query.limit;
  }
}
