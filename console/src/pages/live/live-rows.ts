import { eventFieldsOf } from '../../shared/event-fields.ts';
import { plural } from '../../shared/quantities.ts';
import { violationsIn } from '../../shared/violations.ts';
import type { StreamItem } from './live-stream.ts';
import type { LiveSearch } from './search.ts';

/** Maximum number of rows: bounds the memory of a tab, together with `MAX_CHARACTERS`. */
export const MAX_ROWS = 1_000;
/** Maximum number of characters in the events of the kept rows. */
const MAX_CHARACTERS = 16 * 1024 * 1024;
/** Seconds over which the rate is averaged. */
const RATE_SECONDS = 10;
/** An event older than this is history and does not count in the rate, ms. Greater than the difference of clocks. */
const OLD_MS = 30_000;

export interface EventRow {
  readonly kind: 'event';
  readonly key: number;
  readonly messageId: string;
  readonly type: string;
  readonly name: string;
  readonly subject: string;
  readonly environment: string;
  readonly outcome: string;
  readonly violations: number;
  readonly receivedAt: string | undefined;
  /** The event as received, parsed again when it is opened. */
  readonly json: string;
}

/** Something that happened to the stream between two events. */
interface NoticeRow {
  readonly kind: 'notice';
  readonly key: number;
  readonly text: string;
}

export type LiveRow = EventRow | NoticeRow;

export type RowFilter = Pick<LiveSearch, 'type' | 'name' | 'outcome' | 'q'>;

export interface LiveSnapshot {
  /** Newest first. */
  readonly rows: readonly LiveRow[];
  /** Rows that arrived while the list was held. */
  readonly waiting: number;
  /** Events a second, averaged over the last seconds. */
  readonly rate: number;
  readonly received: number;
}

const NOTHING: LiveSnapshot = { rows: [], waiting: 0, rate: 0, received: 0 };

/**
 * The rows of the live page. `add` collects events, and `flush`, which the page calls at most once a frame, shows them;
 * while the list is held, new events wait. A bounded number is kept, and a notice counts the events that were dropped before
 * they were shown.
 */
export class LiveRows {
  #snapshot = NOTHING;
  #filter: RowFilter = {};
  /** Oldest first. */
  #kept: readonly LiveRow[] = [];
  #matching: readonly LiveRow[] = [];
  #incoming: LiveRow[] = [];
  #dropped = 0;
  #isHeld = false;
  #received = 0;
  #nextKey = 0;
  readonly #arrivals = new Map<number, number>();
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  get snapshot(): LiveSnapshot {
    return this.#snapshot;
  }

  add(item: StreamItem): void {
    const key = this.#nextKey++;
    if (item.kind === 'missed') {
      this.#push({ kind: 'notice', key, text: missedText(item.count) });
      return;
    }
    const row = rowOf(item.json, key);
    if (row === undefined) return;
    this.#received++;
    if (!this.#isOld(row)) {
      const second = Math.floor(this.#now() / 1_000);
      this.#arrivals.set(second, (this.#arrivals.get(second) ?? 0) + 1);
    }
    this.#push(row);
  }

  /** Shows the rows added since the last flush. Returns whether anything changed. */
  flush(): boolean {
    if (!this.#isHeld && (this.#incoming.length > 0 || this.#dropped > 0)) {
      const added = this.#dropped > 0 ? [this.#droppedNotice(), ...this.#incoming] : this.#incoming;
      this.#incoming = [];
      this.#dropped = 0;
      this.#kept = bounded([...this.#kept, ...added]);
      this.#matching = bounded([...this.#matching, ...added.filter((row) => matches(row, this.#filter))]);
    }
    return this.#update();
  }

  /** While the list is held, its rows stay the same, and new ones wait. */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
  }

  /** Filters the kept rows and future ones. */
  filter(filter: RowFilter): void {
    this.#filter = filter;
    this.#matching = this.#kept.filter((row) => matches(row, filter));
    this.#update();
  }

  clear(): void {
    this.#kept = [];
    this.#matching = [];
    this.#incoming = [];
    this.#dropped = 0;
    this.#update();
  }

  find(messageId: string): EventRow | undefined {
    const rows = [...this.#kept, ...this.#matching, ...this.#incoming];
    return rows.findLast((row): row is EventRow => row.kind === 'event' && row.messageId === messageId);
  }

  #push(row: LiveRow): void {
    this.#incoming.push(row);
    if (this.#incoming.length < MAX_ROWS) return; // one row is reserved for the notice of dropped events
    // Drops half of the rows at once: moving a thousand rows for each new event would be slow.
    const oldest = this.#incoming.splice(0, MAX_ROWS / 2);
    this.#dropped += oldest.filter(({ kind }) => kind === 'event').length;
  }

  #droppedNotice(): NoticeRow {
    const text = `${plural(this.#dropped, 'event')} came while the list was held and were dropped: the page keeps ${plural(MAX_ROWS, 'row')} at most.`;
    return { kind: 'notice', key: this.#nextKey++, text };
  }

  #update(): boolean {
    const rate = this.#rate();
    const waiting = this.#incoming.length + this.#dropped;
    const { rows: shown, ...before } = this.#snapshot;
    const isSame = shown.length === this.#matching.length && shown[0] === this.#matching.at(-1);
    if (isSame && before.rate === rate && before.waiting === waiting && before.received === this.#received)
      return false;
    const rows = isSame ? shown : this.#matching.toReversed();
    this.#snapshot = { rows, waiting, rate, received: this.#received };
    return true;
  }

  /** Whether the stream began with this event: such events do not count in the rate. */
  #isOld({ receivedAt }: EventRow): boolean {
    return receivedAt !== undefined && this.#now() - Date.parse(receivedAt) > OLD_MS;
  }

  #rate(): number {
    const from = Math.floor(this.#now() / 1_000) - RATE_SECONDS;
    let count = 0;
    for (const [second, arrived] of this.#arrivals) {
      if (second < from) this.#arrivals.delete(second);
      else count += arrived;
    }
    return count / RATE_SECONDS;
  }
}

function rowOf(json: string, key: number): EventRow | undefined {
  try {
    const event = JSON.parse(json) as Record<string, unknown>;
    const outcome = typeof event.outcome === 'string' ? event.outcome : '';
    const violations = violationsIn(event.violations).length;
    return { kind: 'event', key, ...eventFieldsOf(event), outcome, violations, json };
  } catch {
    return undefined; // not JSON: nothing to show
  }
}

/** The rows without the oldest ones beyond the bounds. */
function bounded(rows: readonly LiveRow[]): readonly LiveRow[] {
  let first = Math.max(0, rows.length - MAX_ROWS);
  let characters = 0;
  for (let index = rows.length - 1; index >= first; index--) {
    const row = rows[index];
    characters += row?.kind === 'event' ? row.json.length : 0;
    if (characters > MAX_CHARACTERS) first = index + 1;
  }
  return first === 0 ? rows : rows.slice(first);
}

/** Notices match every filter: they may stand for an event that does. */
function matches(row: LiveRow, { type, name, outcome, q }: RowFilter): boolean {
  if (row.kind === 'notice') return true;
  if (type !== undefined && row.type !== type) return false;
  if (outcome !== undefined && row.outcome !== outcome) return false;
  if (name !== undefined && !row.name.toLowerCase().includes(name.toLowerCase())) return false;
  return q === undefined || row.json.toLowerCase().includes(q.toLowerCase());
}

function missedText(count: number | null): string {
  if (count === null)
    return 'Events may be missing here: the server no longer keeps them and cannot count them.';
  return `${plural(count, 'event')} missing here: more came than this connection could read, or than the server keeps.`;
}
