import {
  type AuditEntry,
  applyFact,
  applyWithAudit,
  type BatchStage,
  type CatalogEntry,
  CatalogState,
  contractVersionEntries,
  type EventLog,
  type History,
  type HistoryEntry,
  isRewriteRecord,
  type LogEntry,
  type Metrics,
  messageOf,
  restoreState,
  TOPIC,
  TributaryError,
  Unavailable,
} from '@tributary/core';
import { auditHistoryEntry } from '../history/history.ts';

export interface AuditDependencies {
  readonly log: Pick<EventLog, 'read' | 'end'>;
  readonly history: History;
  readonly metrics: Metrics;
}

/**
 * The stage `audit`: writes the effects of catalog facts to history, as audit entries and as versions of contracts. It has
 * its own fold of the catalog, so it neither delays the catalog of its process nor waits for it. Idempotent: repeated
 * facts write the same entries.
 *
 * A fact is never dead-lettered: after any error the stage pauses before it with `Unavailable`, and a later release can
 * continue there. On `stages.dead` a fact would outlive the rewrite of the catalog, with the addresses and secrets in it; and
 * a rewrite waits for this stage, so it drops no fact that was not audited.
 */
export function audit({ log, history, metrics }: AuditDependencies): BatchStage['process'] {
  const facts = new AuditedFacts(log);
  return async (batch, { signal }) => {
    try {
      const { entries, versions, stopped } = await facts.of(batch.entries, signal);
      const kept = [...entries.map((entry) => auditHistoryEntry(entry, 1)), ...versions];
      await history.put(kept);
      if (stopped !== undefined) throw stopped;
      metrics.count('tributary_history_entries_total', { topic: batch.topic }, kept.length);
      return [];
    } catch (error) {
      throw retryable(error, batch.entries[0]?.position.offset);
    }
  };
}

/** A retryable error, which the log repeats without end; any other error would count toward poison. */
function retryable(error: unknown, offset: number | undefined): TributaryError {
  if (error instanceof TributaryError && error.retryable) return error;
  return new Unavailable(
    `the audit log waits before the fact at ${offset} of the catalog: ${messageOf(error)}`,
    {
      cause: error,
    },
  );
}

const PARTITION = 0;
const READ_BYTES = 512 * 1024;

/** The effects of one fact: its entries of the audit log, and the contract versions that it made and replaced. */
interface FactEffects {
  readonly entries: readonly AuditEntry[];
  readonly versions: readonly HistoryEntry[];
}

const applyWithEffects = (state: CatalogState, entry: CatalogEntry, position: number): FactEffects => {
  if (isRewriteRecord(entry)) return { entries: [], versions: [] };
  const contract = () => state.entity('contract', state.workspaceOf(entry.entity) ?? '', entry.entity);
  const before = contract();
  const entries = applyWithAudit(state, entry, position);
  return { entries, versions: contractVersionEntries(before, contract()) };
};

const applyOnly = (state: CatalogState, entry: CatalogEntry, position: number): true => {
  if (!isRewriteRecord(entry)) applyFact(state, entry, position);
  return true;
};

const unknownState = (begins: number, start: number) =>
  new Unavailable(`the catalog begins at ${begins}: the state before the fact at ${start} is not known`);

/** The effects of a batch of facts, up to the first that could not be applied. */
interface AuditedBatch extends FactEffects {
  /** Why the other facts could not be applied: a fact of a later release. */
  readonly stopped?: Unavailable;
}

/**
 * A fold of the catalog at the position of the stage: the effects of a fact are derived from the state before it. It is
 * built at the first batch, from the first fact or from the rows of the last rewrite, and dropped when the partition is
 * revoked: of the processes that run the stage, one holds the catalog twice.
 */
class AuditedFacts {
  readonly #log: Pick<EventLog, 'read' | 'end'>;
  #state = new CatalogState();
  /** The offset of the next fact to apply. */
  #next = 0;
  /** The effects of the last batch, by offset: a batch may be repeated, also cut differently. */
  #effects = new Map<number, FactEffects>();
  /** Why a fact could not be applied; no later one will be. */
  #stopped: Unavailable | undefined;
  #watched: AbortSignal | undefined;

  constructor(log: Pick<EventLog, 'read' | 'end'>) {
    this.#log = log;
  }

  /**
   * The effects of `facts`, entries of the catalog in order. Throws `Unavailable`, or the error of `restoreState`, where the
   * state before them cannot be restored.
   */
  async of(facts: readonly LogEntry[], signal: AbortSignal): Promise<AuditedBatch> {
    const start = facts[0]?.position.offset ?? this.#next;
    this.#forgetOnLoss(signal);
    await this.#moveTo(start, facts, signal);
    const entries: AuditEntry[] = [];
    const versions: HistoryEntry[] = [];
    for (const fact of facts) {
      const { offset } = fact.position;
      if (offset >= this.#next) {
        const effects = this.#apply(fact, applyWithEffects);
        if (effects === undefined) break;
        this.#effects.set(offset, effects);
      }
      entries.push(...(this.#effects.get(offset)?.entries ?? []));
      versions.push(...(this.#effects.get(offset)?.versions ?? []));
    }
    return { entries, versions, ...(this.#stopped && { stopped: this.#stopped }) };
  }

  /** Undefined for a fact that cannot be applied. It may be applied in part, so the fold is unusable from then on. */
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

  /** Applies the facts before `start`. Begins anew where the fold is ahead and the effects of `facts` are not kept. */
  async #moveTo(start: number, facts: readonly LogEntry[], signal: AbortSignal): Promise<void> {
    const known = ({ position: { offset } }: LogEntry) => offset >= this.#next || this.#effects.has(offset);
    if (this.#next > start && !facts.every(known)) this.#forget();
    for (const offset of this.#effects.keys()) if (offset < start) this.#effects.delete(offset);
    while (this.#next < start) {
      const from = this.#next;
      const { entries, next } = await this.#log.read(TOPIC.catalog, PARTITION, from, {
        maxBytes: READ_BYTES,
      });
      if (signal.aborted) throw new Unavailable('the partition was lost'); // the fold was reset
      if (entries.length === 0)
        throw new Unavailable(`the catalog ends at ${from}, before the fact at ${start}`);
      const gap = this.#applyBelow(start, entries);
      if (gap === undefined) this.#next = Math.min(next, start);
      else await this.#restoreAt(gap, start, signal);
    }
  }

  /** Applies the facts below `start`; returns the offset behind a gap of facts that a rewrite dropped. */
  #applyBelow(start: number, entries: readonly LogEntry[]): number | undefined {
    for (const entry of entries) {
      const { offset } = entry.position;
      if (offset > this.#next) return offset;
      if (offset >= start) return undefined;
      if (this.#apply(entry, applyOnly) === undefined) throw this.#stopped;
    }
    return undefined;
  }

  /** Restores the state from the rows of the last rewrite. */
  async #restoreAt(offset: number, start: number, signal: AbortSignal): Promise<void> {
    if (offset > start) throw unknownState(offset, start);
    const { state, position } = await restoreState(this.#log, offset);
    if (signal.aborted) throw new Unavailable('the partition was lost');
    if (position > start) throw unknownState(position, start);
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
    this.#effects = new Map();
    this.#stopped = undefined;
  }
}
