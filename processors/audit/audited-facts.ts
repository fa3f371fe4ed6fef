import {
  type AuditEntry,
  applyFact,
  applyWithAudit,
  type CatalogEntry,
  CatalogState,
  contractVersionEntries,
  type EventLog,
  type HistoryEntry,
  isRewriteRecord,
  type LogEntry,
  messageOf,
  restoreState,
  TOPIC,
  Unavailable,
} from '@tributary/core';

const PARTITION = 0;
const READ_BYTES = 512 * 1024;

/** What one fact did: its entries of the audit log, and the versions of contracts that it made and replaced. */
interface Told {
  readonly entries: readonly AuditEntry[];
  readonly versions: readonly HistoryEntry[];
}

const tell = (state: CatalogState, entry: CatalogEntry, position: number): Told => {
  if (isRewriteRecord(entry)) return { entries: [], versions: [] };
  const contract = () => state.entity('contract', state.workspaceOf(entry.entity) ?? '', entry.entity);
  const before = contract();
  const entries = applyWithAudit(state, entry, position);
  return { entries, versions: contractVersionEntries(before, contract()) };
};

const fold = (state: CatalogState, entry: CatalogEntry, position: number): true => {
  if (!isRewriteRecord(entry)) applyFact(state, entry, position);
  return true;
};

const notTold = (begins: number, start: number) =>
  new Unavailable(`the catalog begins at ${begins}: what the fact at ${start} did cannot be told`);

/** What the facts of a batch did, as far as they could be applied. */
export interface Audited extends Told {
  /** Why the rest could not be: a fact that this release does not know. */
  readonly stopped?: Unavailable;
}

/**
 * A fold of the catalog that stands where the stage stands, as what a fact did can only be told beside the state before
 * it. It is begun with the first batch, from the first fact on or the rows that the log begins with, and dropped with
 * the partition: of the processes that run the stage, one holds the catalog twice.
 */
export class AuditedFacts {
  readonly #log: Pick<EventLog, 'read' | 'end'>;
  #state = new CatalogState();
  /** The offset of the next fact to apply. */
  #next = 0;
  /** What the facts of the last batch did, by offset: a batch may come again, also cut differently. */
  #told = new Map<number, Told>();
  /** The first fact could not be applied, and so none after it will be. */
  #stopped: Unavailable | undefined;
  #watched: AbortSignal | undefined;

  constructor(log: Pick<EventLog, 'read' | 'end'>) {
    this.#log = log;
  }

  /**
   * `facts` are entries of the catalog, in order. When those before them cannot be read: `Unavailable`, or what
   * `restoreState` throws where there is no state to go on from.
   */
  async of(facts: readonly LogEntry[], signal: AbortSignal): Promise<Audited> {
    const start = facts[0]?.position.offset ?? this.#next;
    this.#forgetOnLoss(signal);
    await this.#standAt(start, facts, signal);
    const entries: AuditEntry[] = [];
    const versions: HistoryEntry[] = [];
    for (const fact of facts) {
      const { offset } = fact.position;
      if (offset >= this.#next) {
        const told = this.#apply(fact, tell);
        if (told === undefined) break;
        this.#told.set(offset, told);
      }
      entries.push(...(this.#told.get(offset)?.entries ?? []));
      versions.push(...(this.#told.get(offset)?.versions ?? []));
    }
    return { entries, versions, ...(this.#stopped && { stopped: this.#stopped }) };
  }

  /** Undefined for a fact that cannot be applied. It may have been in part: this fold is of no use behind it. */
  #apply<Answer>(
    { position: { offset }, value }: LogEntry,
    apply: (state: CatalogState, entry: CatalogEntry, position: number) => Answer,
  ): Answer | undefined {
    if (this.#stopped !== undefined) return undefined;
    try {
      const answer = apply(this.#state, JSON.parse(value) as CatalogEntry, offset);
      this.#next = offset + 1;
      return answer;
    } catch (error) {
      const message = `the catalog holds a fact at ${offset} that cannot be applied: ${messageOf(error)}`;
      this.#stopped = new Unavailable(message, { cause: error });
      return undefined;
    }
  }

  /** Applies what comes before `start`; what was applied of `facts` already must be remembered, else all begins anew. */
  async #standAt(start: number, facts: readonly LogEntry[], signal: AbortSignal): Promise<void> {
    const known = ({ position: { offset } }: LogEntry) => offset >= this.#next || this.#told.has(offset);
    if (this.#next > start && !facts.every(known)) this.#forget();
    for (const offset of this.#told.keys()) if (offset < start) this.#told.delete(offset);
    while (this.#next < start) {
      const from = this.#next;
      const { entries, next } = await this.#log.read(TOPIC.catalog, PARTITION, from, {
        maxBytes: READ_BYTES,
      });
      if (signal.aborted) throw new Unavailable('the partition was lost'); // and all that was applied forgotten
      if (entries.length === 0)
        throw new Unavailable(`the catalog ends at ${from}, before the fact at ${start}`);
      const gap = this.#applyBelow(start, entries);
      if (gap === undefined) this.#next = Math.min(next, start);
      else await this.#restoreAt(gap, start, signal);
    }
  }

  /** The offset behind facts that the log does not keep any more, where it comes to one. */
  #applyBelow(start: number, entries: readonly LogEntry[]): number | undefined {
    for (const entry of entries) {
      const { offset } = entry.position;
      if (offset > this.#next) return offset;
      if (offset >= start) return undefined;
      if (this.#apply(entry, fold) === undefined) throw this.#stopped;
    }
    return undefined;
  }

  /** Goes on from the rows that the log begins with. */
  async #restoreAt(offset: number, start: number, signal: AbortSignal): Promise<void> {
    if (offset > start) throw notTold(offset, start);
    const { state, position } = await restoreState(this.#log, offset);
    if (signal.aborted) throw new Unavailable('the partition was lost');
    if (position > start) throw notTold(position, start);
    [this.#state, this.#next] = [state, position];
  }

  #forgetOnLoss(signal: AbortSignal): void {
    if (this.#watched === signal) return;
    this.#watched = signal;
    const forget = () => {
      if (this.#watched === signal) this.#forget();
    };
    signal.addEventListener('abort', forget, { once: true });
  }

  #forget(): void {
    this.#state = new CatalogState();
    this.#next = 0;
    this.#told = new Map();
    this.#stopped = undefined;
  }
}
