import { setTimeout as sleep } from 'node:timers/promises';
import {
  applyFact,
  backoffMs,
  type Catalog,
  type CatalogEntry,
  CatalogGap,
  type CatalogRow,
  CatalogState,
  type CatalogView,
  digestOfRows,
  type EventLog,
  type Fact,
  HEADER,
  iso,
  isRewriteRecord,
  type LogEntry,
  type Logger,
  messageOf,
  newId,
  type RewriteBegun,
  restoreState,
  rewriteRecords,
  rowsOf,
  TOPIC,
  TributaryError,
  Unavailable,
  UnknownFact,
  type Verdict,
  withTimeout,
} from '@tributary/core';
import { type FactText, type SnapshotContent, type SnapshotOptions, Snapshots } from './snapshots.ts';

export interface LogCatalogOptions {
  readonly log: Pick<EventLog, 'append' | 'read' | 'end' | 'first' | 'positionOf' | 'dropBelow'>;
  readonly logger: Logger;
  /** The catalog is not ready after this time without a successful fetch, ms. Default 15,000; more than `fetchWaitMs`. */
  readonly staleAfterMs?: number;
  /** How long one fetch waits for new facts, ms. Default 1,000. */
  readonly fetchWaitMs?: number;
  /** How long a proposal waits for its verdict, ms. Default 10,000. */
  readonly proposeTimeoutMs?: number;
  /** Called when the partitions of a topic changed, before a caller that waits for that position continues. */
  readonly onLayouts?: () => void;
  /** The snapshot that a start begins from; without it, every start reads all facts. */
  readonly snapshot?: SnapshotOptions;
}

const PARTITION = 0;
/** One fetch is folded without yielding to the event loop, so it must be small. */
const FETCH_BYTES = 512 * 1024;
const BACKOFF = { firstMs: 50, capMs: 2_000 };

/** A catalog whose history can be replaced by its state. */
export interface RewritableCatalog extends Catalog {
  /**
   * Writes the current state into the log as rows, and drops the facts before them, while the system runs. The catalog must
   * have caught up.
   *
   * - Nothing is dropped before the rows were read back and gave the same state, and every stage has read the facts to drop.
   * - May be repeated at any time, also after a kill, and run several times at once: each rewrite is complete by itself, and
   *   an unfinished one has no effect.
   *
   * Errors: `Unavailable` when the log does not answer, a stage does not get far enough, or a rewrite that began later
   * dropped the records of this one; a later run does all of it.
   */
  rewrite(options: RewriteOptions): Promise<Rewritten>;
}

/**
 * Folds the topic `catalog` of any `EventLog` until `close`, beginning with the snapshot, the first fact, or the rows of
 * the rewrite at the beginning of the log. The topics must exist.
 */
export function openLogCatalog(options: LogCatalogOptions): RewritableCatalog {
  return new LogCatalog(options);
}

interface Waiter {
  readonly position: number;
  readonly resolve: () => void;
  readonly reject: (error: Unavailable) => void;
}

class LogCatalog implements RewritableCatalog {
  readonly #options: Required<Omit<LogCatalogOptions, 'snapshot' | 'onLayouts'>>;
  readonly #onLayouts: () => void;
  readonly #snapshots: Snapshots | undefined;
  #state = new CatalogState();
  /** Callers that wait until the fold reaches a position. */
  readonly #waiters = new Set<Waiter>();
  /**
   * The verdicts on folded facts, by offset, while there are proposals under way. The fold often reads a fact before its
   * append has returned the offset, so they are kept from before the append until the last proposal has ended.
   */
  readonly #verdicts = new Map<number, Verdict>();
  #proposals = 0;
  readonly #closing = new AbortController();
  readonly #following: Promise<void>;
  #position = 0;
  /** The end of the topic at the start; undefined until the log has answered. */
  #endAtStart: number | undefined;
  #caughtUp = false;
  #fetchedAt = Number.NEGATIVE_INFINITY;
  #failures = 0;
  /** The last folded fact. */
  #last: FactText | undefined;
  /** Rewrites under way, by id: each takes the rows of the state at the record that begins it. */
  readonly #rewrites = new Map<string, (rows: readonly CatalogRow[]) => void>();
  /** The log ended before this position at the last check. */
  #wasAhead = false;
  /** A fact failed to apply and may have changed the state partially. */
  #isInconsistent = false;
  /** Why folding has ended: a fact unknown to this release, missing facts, or `close`. */
  #stopped: Unavailable | undefined;

  constructor(options: LogCatalogOptions) {
    this.#options = {
      staleAfterMs: 15_000,
      fetchWaitMs: 1_000,
      proposeTimeoutMs: 10_000,
      ...options,
    };
    const { snapshot, logger, onLayouts = () => {} } = options;
    this.#onLayouts = onLayouts;
    this.#snapshots = snapshot && new Snapshots(snapshot, logger, () => this.#snapshotContent());
    this.#following = this.#follow();
  }

  get state(): CatalogView {
    return this.#state;
  }

  get position(): number {
    return this.#position;
  }

  get ready(): boolean {
    return this.#stopped === undefined && this.#caughtUp && this.age <= this.#options.staleAfterMs;
  }

  get age(): number {
    return performance.now() - this.#fetchedAt;
  }

  get fault(): string | undefined {
    return this.#stopped?.message;
  }

  async propose(fact: Fact): Promise<Verdict> {
    if (this.#stopped !== undefined) throw this.#stopped;
    const { proposeTimeoutMs } = this.#options;
    const deadline = performance.now() + proposeTimeoutMs;
    this.#proposals++;
    try {
      const offset = await withTimeout(
        this.#append(fact.entity, fact),
        proposeTimeoutMs,
        `the append of a fact took more than ${proposeTimeoutMs} ms`,
      );
      await this.waitFor(offset + 1, Math.max(0, deadline - performance.now()));
      const verdict = this.#verdicts.get(offset);
      if (verdict === undefined)
        throw new Unavailable('the verdict on a fact is unknown: the fact was folded earlier, or dropped');
      return verdict;
    } finally {
      if (--this.#proposals === 0) this.#verdicts.clear();
    }
  }

  async waitFor(position: number, timeoutMs: number): Promise<void> {
    if (this.#position >= position) return;
    if (this.#stopped !== undefined) throw this.#stopped;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter = { position, resolve, reject };
    this.#waiters.add(waiter);
    const late = `the catalog did not reach position ${position} in ${timeoutMs} ms`;
    await withTimeout(promise, timeoutMs, late).finally(() => this.#waiters.delete(waiter));
  }

  async catchUp(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    const end = await withTimeout(
      this.#options.log.end(TOPIC.catalog, PARTITION),
      timeoutMs,
      `reading the end of the catalog took more than ${timeoutMs} ms`,
    );
    await this.waitFor(end, Math.max(0, deadline - performance.now()));
  }

  async close(): Promise<void> {
    this.#stop(new Unavailable('the catalog is closed'));
    this.#closing.abort();
    await this.#following;
    await this.#snapshots?.close();
  }

  async rewrite(options: RewriteOptions): Promise<Rewritten> {
    const { by, graceMs = 0, done = () => {} } = options;
    const { log } = this.#options;
    // Finds a stage that is not running before anything is written.
    await stagesPast(await log.end(TOPIC.catalog, PARTITION), log, options);
    const { rewrite, offset, rows } = await this.#beginRewrite(by);
    done('begun');
    let pieces = 0;
    for (const record of rewriteRecords(rewrite, rows)) {
      await this.#append(rewrite, record);
      if (record.type === 'catalog.rewrite_rows') pieces++;
      done(record.type === 'catalog.rewrite_rows' ? 'piece' : 'ended');
    }
    const restored = await restoreState(log, offset);
    if (restored.position !== offset) throw supersededAt(offset);
    if (digestOfRows(rowsOf(restored.state)) !== digestOfRows(rows))
      throw new CatalogGap('the written rows give another state: nothing was dropped');
    done('read back');
    await stagesPast(offset, log, options);
    done('awaited');
    await sleep(graceMs);
    const first = await log.first(TOPIC.catalog, PARTITION);
    await log.dropBelow(TOPIC.catalog, PARTITION, offset);
    done('dropped');
    return { offset, rows: rows.length, pieces, dropped: Math.max(0, offset - first) };
  }

  async #beginRewrite(by: string) {
    const rewrite = newId();
    let rows: readonly CatalogRow[] | undefined;
    this.#rewrites.set(rewrite, (taken) => {
      rows = taken;
    });
    try {
      const at = iso(Date.now());
      const begun: RewriteBegun = { v: 1, type: 'catalog.rewrite_begun', rewrite, by, at };
      const offset = await this.#append(rewrite, begun);
      await this.waitFor(offset + 1, this.#options.proposeTimeoutMs);
      // The fold is past the record. Without rows it never saw it, as a later rewrite dropped it.
      if (rows === undefined) throw supersededAt(offset);
      return { rewrite, offset, rows };
    } finally {
      this.#rewrites.delete(rewrite);
    }
  }

  #snapshotContent(): SnapshotContent | undefined {
    return this.#isInconsistent
      ? undefined
      : { state: this.#state, position: this.#position, last: this.#last };
  }

  async #append(key: string, entry: CatalogEntry): Promise<number> {
    const headers = { [HEADER.catalogPosition]: String(this.#position) };
    const entries = [{ key, value: JSON.stringify(entry), headers }];
    const [position] = await this.#options.log.append(TOPIC.catalog, entries);
    if (position === undefined) throw new Unavailable('the log returned no position for a fact');
    return position.offset;
  }

  /** Fetches and folds until stopped; retries errors of the log. */
  async #follow(): Promise<void> {
    while (this.#stopped === undefined) {
      try {
        await this.#fetch();
        this.#recovered();
      } catch (error) {
        if (error instanceof CatalogGap || error instanceof UnknownFact) this.#stopAtGap(error);
        if (this.#stopped === undefined) await this.#backOff(error);
      }
    }
  }

  async #fetch(): Promise<void> {
    const { log, fetchWaitMs } = this.#options;
    if (this.#endAtStart === undefined) {
      const end = await log.end(TOPIC.catalog, PARTITION);
      const found = await this.#snapshots?.load(log);
      if (this.#stopped !== undefined) return;
      if (found !== undefined) {
        this.#state = found.state;
        this.#position = found.position;
        this.#onLayouts();
      }
      this.#endAtStart = end;
      this.#fetched(end, performance.now());
    }
    const asked = performance.now();
    const { entries, next } = await log.read(TOPIC.catalog, PARTITION, this.#position, {
      maxBytes: FETCH_BYTES,
      waitMs: fetchWaitMs,
      signal: this.#closing.signal,
    });
    if (this.#stopped !== undefined) return;
    if (entries.length === 0) {
      // No entries may also mean that the next facts were dropped, or that the log lost folded facts.
      const first = await log.first(TOPIC.catalog, PARTITION);
      if (first > this.#position) return this.#restore(first);
      if (await this.#isAheadOfLog()) return;
    }
    for (const entry of entries) {
      if (this.#stopped !== undefined) return;
      // Offsets of the catalog are consecutive, unless facts were dropped.
      if (entry.position.offset > this.#position) return this.#restore(entry.position.offset);
      this.#fold(entry);
    }
    if (this.#stopped !== undefined) return;
    this.#position = Math.max(this.#position, next);
    // An answer that comes late knows nothing of what was appended since.
    this.#fetched(this.#endAtStart, Math.min(performance.now(), asked + fetchWaitMs));
  }

  /**
   * Whether the log ends before the folded position. Once, it may be a new leader that does not know its end yet; twice in
   * a row, facts were lost, and their offsets are going to be those of other facts.
   */
  async #isAheadOfLog(): Promise<boolean> {
    const end = await this.#options.log.end(TOPIC.catalog, PARTITION);
    const wasAhead = this.#wasAhead;
    this.#wasAhead = end < this.#position;
    if (wasAhead && this.#wasAhead) throw new CatalogGap(`facts were lost: the catalog ends at ${end}`);
    return this.#wasAhead;
  }

  /** The log begins after the folded position: the rows at its beginning replace the state. */
  async #restore(offset: number): Promise<void> {
    const { log, logger } = this.#options;
    const end = await log.end(TOPIC.catalog, PARTITION);
    const { state, position } = await restoreState(log, offset);
    if (this.#stopped !== undefined) return;
    logger.info({ from: this.#position, position }, 'the catalog was restored from the rows of a rewrite');
    this.#state = state;
    this.#onLayouts();
    this.#position = position;
    this.#last = undefined;
    this.#endAtStart = end;
    this.#caughtUp = false;
    this.#fetched(end, performance.now());
  }

  #stopAtGap(gap: CatalogGap | UnknownFact): void {
    this.#options.logger.error(
      { position: this.#position, error: gap.message },
      'the catalog is incomplete: this process is not ready and stays so',
    );
    this.#stop(new Unavailable(gap.message, { cause: gap }));
  }

  #fetched(endAtStart: number, at: number): void {
    this.#fetchedAt = at;
    this.#caughtUp ||= this.#position >= endAtStart;
    for (const waiter of this.#waiters) if (waiter.position <= this.#position) waiter.resolve();
  }

  #fold(entry: LogEntry): void {
    const { offset } = entry.position;
    if (offset < this.#position) return;
    try {
      this.#apply(JSON.parse(entry.value) as CatalogEntry, offset);
      this.#position = offset + 1;
      this.#last = { offset, text: entry.value };
    } catch (error) {
      // Skipping the fact would make this state differ from that of other processes, so folding ends here.
      this.#position = offset;
      this.#isInconsistent = true;
      this.#options.logger.error(
        { position: offset, error: messageOf(error) },
        'a fact of the catalog cannot be applied: this process is not ready and stays so',
      );
      this.#stop(new Unavailable(`the catalog stopped at position ${offset}`, { cause: error }));
    }
  }

  #apply(entry: CatalogEntry, offset: number): void {
    if (!isRewriteRecord(entry)) {
      const verdict = applyFact(this.#state, entry, offset);
      if (this.#proposals > 0) this.#verdicts.set(offset, verdict);
      if (entry.type === 'topic.grown' || entry.type === 'topic.growth_announced') this.#onLayouts();
      return;
    }
    if (entry.type !== 'catalog.rewrite_begun') return;
    const take = this.#rewrites.get(entry.rewrite);
    if (take === undefined) return;
    this.#snapshots?.forgetEras(this.#state);
    take(rowsOf(this.#state));
  }

  #stop(reason: Unavailable): void {
    this.#stopped ??= reason;
    for (const { position, resolve, reject } of this.#waiters)
      if (position <= this.#position) resolve();
      else reject(this.#stopped);
  }

  #recovered(): void {
    if (this.#failures === 0) return;
    this.#options.logger.info({ failures: this.#failures }, 'the catalog can be read again');
    this.#failures = 0;
  }

  async #backOff(error: unknown): Promise<void> {
    const expected = error instanceof TributaryError && error.retryable;
    const fields = { error: messageOf(error), position: this.#position };
    if (this.#failures === 0 && expected)
      this.#options.logger.warn(fields, 'the catalog cannot be read; trying again');
    if (!expected) this.#options.logger.error(fields, 'reading the catalog failed; trying again');
    const ms = backoffMs(this.#failures++, BACKOFF);
    await sleep(ms, undefined, { signal: this.#closing.signal }).catch(() => undefined);
  }
}

export interface RewriteOptions {
  /** The actor, as in facts. */
  readonly by: string;
  /** Stages that read the catalog: facts that they have not read are not dropped. */
  readonly stages: readonly string[];
  /** How long to wait for them, ms. */
  readonly stageTimeoutMs: number;
  /**
   * How long gateways get to read the facts before they are dropped, ms: they store no position to wait for, and answer 503
   * to a change whose fact they find dropped. Default 0.
   */
  readonly graceMs?: number;
  /** Called after each step. */
  readonly done?: (step: RewriteStep) => void;
}

/** In this order, with one `piece` per record of rows. */
export type RewriteStep = 'begun' | 'piece' | 'ended' | 'read back' | 'awaited' | 'dropped';

/** The result of a rewrite. */
export interface Rewritten {
  /** The first offset of the log now. */
  readonly offset: number;
  readonly rows: number;
  readonly pieces: number;
  /** Number of records below the offset. */
  readonly dropped: number;
}

function supersededAt(offset: number): Unavailable {
  return new Unavailable(
    `the rewrite of the catalog that began at ${offset} was overtaken by another one: repeat the rewrite where that one did not finish`,
  );
}

const POLL_MS = 200;

/** Waits until every stage has read the catalog up to the offset. Retries while the log does not answer. */
async function stagesPast(
  offset: number,
  log: Pick<EventLog, 'positionOf'>,
  { stages, stageTimeoutMs }: RewriteOptions,
): Promise<void> {
  const deadline = performance.now() + stageTimeoutMs;
  const positionOf = async (stage: string) => (await log.positionOf(stage, TOPIC.catalog, PARTITION)) ?? 0;
  for (const stage of stages) {
    for (;;) {
      const isOver = performance.now() > deadline;
      const position = await positionOf(stage).catch((error: unknown) => {
        if (isOver || !(error instanceof Unavailable)) throw error;
        return -1;
      });
      if (position >= offset) break;
      if (isOver)
        throw new Unavailable(
          `the stage ${stage} is at ${position} of the catalog, not yet at ${offset}: nothing was dropped; start the stage if it is not running, and repeat the rewrite`,
        );
      await sleep(POLL_MS);
    }
  }
}
