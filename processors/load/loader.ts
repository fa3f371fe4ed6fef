import {
  backoffMs,
  type ConnectorCatalog,
  type ConnectorDestination,
  type Destination,
  type EventLog,
  EventLoopYielder,
  HEADER,
  type History,
  iso,
  type LedgerRow,
  LIVE_LANE,
  type LoadRecord,
  type LogEntry,
  type LogRange,
  loadEveryMs,
  messageOf,
  nameId,
  newestLoad,
  newId,
  organizationOf,
  type ProfileStore,
  type ReplayStep,
  recordChars,
  TOPIC,
  Unavailable,
  type Warehouse,
  WarehouseRefused,
} from '@tributary/core';
import { type DestinationReport, HealthCounts, HealthTally } from '../deliver/health.ts';
import type { Transformer } from '../route/transformer.ts';
import type { StageParts } from '../stages.ts';
import { type BatchTools, makeBatch } from './batch.ts';
import {
  abandonedReplays,
  boundsOf,
  continuation,
  isOfWarehouse,
  type Lane,
  lanesOf,
  rangesText,
} from './lanes.ts';
import type { LoadRecords } from './records.ts';
import type { LoadTurns } from './turns.ts';

export interface LoaderDependencies extends Omit<StageParts, 'tracing'> {
  readonly log: Pick<EventLog, 'read' | 'end' | 'first' | 'offsetAt' | 'topics'>;
  readonly history: Pick<History, 'get' | 'list'>;
  readonly profiles: Pick<ProfileStore, 'search'>;
  readonly connectors: Pick<ConnectorCatalog, 'warehouse'>;
  unseal(destination: Destination): ConnectorDestination;
  readonly transformer: Pick<Transformer, 'run' | 'release'>;
  readonly records: Pick<LoadRecords, 'append' | 'appendStep'>;
  readonly turns: LoadTurns;
  /** Characters of the catalog that an organization may use: beyond, no further tables are made. */
  readonly catalogCharacters: number;
  /** Bounds on a batch; that of the engine counts as well. */
  readonly bounds: BatchBounds;
}

/** Seconds. */
export interface LoadGauges {
  /** Since the warehouse was up to date. */
  readonly sinceLoad: number;
  readonly every: number;
}

/** How long a loader without work waits before it looks again, ms. */
const IDLE_MS = 5_000;
/** Positions that no rows belong to are committed after so long, ms. */
const COMMIT_EMPTY_AFTER_MS = 3_600_000;

/** A warehouse of which a lane is loaded. */
interface Loading {
  readonly warehouse: Warehouse;
  readonly destination: Destination;
  readonly lane: Lane;
  /** Somebody asked for the load: it is recorded even if there is nothing to load. */
  readonly isRequested: boolean;
}

/** Where reading goes on although nothing was committed, while the newest ledger row is the one of `seq`. */
interface Passed {
  readonly seq: number;
  readonly ranges: readonly LogRange[];
}

/**
 * Loads one warehouse, batch by batch, as long as its process owns it.
 *
 * Nothing is known of the progress but the ledger of the warehouse, which is read before every batch: so also after a commit
 * without an answer, and beside another loader. A batch is what the log holds behind the newest ledger row, up to a bound.
 * While the warehouse is down nothing is read or skipped.
 */
export class WarehouseLoader {
  readonly #dependencies: LoaderDependencies;
  readonly #id: string;
  readonly #closing = new AbortController();
  readonly #ended: Promise<void>;
  readonly #counts = new HealthCounts();
  readonly #tally: HealthTally;
  readonly #passed = new Map<string, Passed>();
  readonly #finished = new Set<string>();
  /** Lanes whose newest ledger row is known to be recorded. */
  readonly #recorded = new Set<string>();
  readonly #told = new Set<string>();
  #opened: { readonly version: number; readonly warehouse: Warehouse } | undefined;
  #wake: () => void = () => {};
  #isRequested = false;
  #hasMore = false;
  #beganAt: number | undefined;
  #attempts = 0;
  /** Rows by table of all loads so far. */
  #totals: Readonly<Record<string, number>> | undefined;
  /** Until when the records of each partition are loaded, by `topic/partition`, epoch ms. */
  readonly #until = new Map<string, number>();
  /** The earliest of them; undefined before the first load of this process. */
  #loadedUntil: number | undefined;
  #failures = 0;
  #failedAt = 0;
  #failure: string | undefined;
  /** Since when the circuit of the health report is as it is, epoch ms. */
  #circuitSince: number;
  #loadedAt: number;

  constructor(dependencies: LoaderDependencies, destinationId: string) {
    this.#dependencies = dependencies;
    this.#id = destinationId;
    this.#tally = new HealthTally(dependencies.elapsed(), this.#counts);
    this.#circuitSince = dependencies.clock();
    this.#loadedAt = dependencies.elapsed();
    this.#ended = this.#run();
  }

  get id(): string {
    return this.#id;
  }

  /** Loads at once. */
  request(): void {
    this.#isRequested = true;
    this.#wake();
  }

  /** Looks at the destination again. */
  look(): void {
    this.#wake();
  }

  /** Ends the calls under way, whose results are found in the ledger by the next loader. */
  async close(): Promise<void> {
    this.#closing.abort(new Unavailable('the loader is closed'));
    this.#wake();
    await this.#ended;
    await this.#opened?.warehouse.close();
  }

  get gauges(): LoadGauges {
    const sinceLoad = (this.#dependencies.elapsed() - this.#loadedAt) / 1_000;
    return { sinceLoad, every: this.#everyMs(this.#destination) / 1_000 };
  }

  /** Counts since the last call, as `DestinationRegistry.takeCounts` has them. */
  takeCounts() {
    return this.#counts.take();
  }

  /** As deliver reports a destination: a load is an attempt. The circuit is open while loads fail. */
  get health(): DestinationReport {
    const { clock, elapsed } = this.#dependencies;
    const destination = this.#destination;
    const lateMs = BEHIND_INTERVALS * this.#everyMs(destination);
    const sinceMs = elapsed() - this.#loadedAt;
    const isLate = destination !== undefined && sinceMs > lateMs;
    return {
      destination_id: this.#id,
      at: clock(),
      ...this.#tally.tallied(elapsed()),
      waiting: 0,
      under_way: 0,
      oldest_waiting_at: isLate ? Math.round(clock() - sinceMs) : null,
      circuit: this.#failures === 0 ? 'closed' : 'open',
      circuit_since: this.#circuitSince,
      ...(this.#loadedUntil === undefined ? {} : { loaded_until: this.#loadedUntil }),
    };
  }

  get #destination(): Destination | undefined {
    const { state } = this.#dependencies.catalog;
    const destination = state.destination(this.#id);
    const isOpen = destination?.enabled === true && destination.paused !== true;
    return isOpen && state.workspace(destination.workspace_id)?.status === 'active' ? destination : undefined;
  }

  #everyMs(destination: Destination | undefined): number {
    return loadEveryMs(destination?.settings ?? {});
  }

  async #run(): Promise<void> {
    const { turns, catalog, elapsed } = this.#dependencies;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const destination = this.#destination;
      // What is disabled is not late.
      if (destination === undefined) this.#loadedAt = elapsed();
      const waitMs = destination === undefined ? IDLE_MS : loadWaitMs(this.#timing(destination), elapsed());
      if (waitMs > 0) await this.#pause(Math.min(waitMs, IDLE_MS));
      else if (destination !== undefined)
        await turns.run(organizationOf(catalog.state, destination.workspace_id), () =>
          signal.aborted ? Promise.resolve() : this.#load(destination),
        );
    }
  }

  #timing(destination: Destination) {
    const isBackfilling = this.#lanes(destination).length > 1;
    return {
      everyMs: this.#everyMs(destination),
      beganAt: this.#beganAt,
      isRequested: this.#isRequested,
      hasMore: this.#hasMore,
      isBackfilling,
      failures: this.#failures,
      failedAt: this.#failedAt,
    };
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      timer.unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Loads a batch of each lane. Never rejects: a failure delays the next load. */
  async #load(destination: Destination): Promise<void> {
    const { elapsed } = this.#dependencies;
    const isRequested = this.#isRequested;
    const began = elapsed();
    this.#beganAt = began;
    this.#isRequested = false;
    try {
      const warehouse = await this.#open(destination);
      this.#checkBudget(warehouse, destination);
      let hasMore = false;
      for (const lane of this.#lanes(destination)) {
        const more = await this.#loadLane({ warehouse, destination, lane, isRequested });
        if (lane.id === LIVE_LANE && !more) this.#loadedAt = began;
        hasMore ||= more;
      }
      await this.#endAbandoned(destination);
      this.#hasMore = hasMore;
      this.#noteResult(undefined, elapsed() - began);
      if (!hasMore) await this.#maintain(warehouse, destination);
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      await this.#fail(destination, error, elapsed() - began);
    }
  }

  /** What is stored here waits in the log while the workspace is over a budget of the disk. */
  #checkBudget({ storesHere }: Warehouse, { workspace_id }: Destination): void {
    const over = storesHere === true ? this.#dependencies.budgets?.verdictOf(workspace_id) : undefined;
    if (over !== undefined) throw new Unavailable(`the workspace is over its budget ${over.budget}`);
  }

  /** One piece of maintenance behind each load that left nothing. Its failure is told, and delays no load. */
  async #maintain(warehouse: Warehouse, { id }: Destination): Promise<void> {
    try {
      await warehouse.maintain?.(this.#closing.signal);
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      const about = { destination: id, error: messageOf(error) };
      this.#dependencies.logger.warn(about, 'a warehouse cannot be maintained for now; it is tried again');
    }
  }

  #lanes(destination: Destination): readonly Lane[] {
    const { catalog, clock, retentionMs } = this.#dependencies;
    return lanesOf(catalog.state, destination, this.#finished, clock() - retentionMs);
  }

  /** Settings that changed may lead to another warehouse. */
  async #open(destination: Destination): Promise<Warehouse> {
    const { connectors, unseal } = this.#dependencies;
    const { version, type } = destination;
    if (this.#opened?.version === version) return this.#opened.warehouse;
    await this.#opened?.warehouse.close();
    this.#opened = undefined;
    const warehouse = connectors.warehouse(type, unsealed(unseal, destination));
    if (warehouse === undefined)
      throw new WarehouseRefused(`this release knows no warehouse of type ${type}`);
    this.#passed.clear();
    this.#recorded.clear();
    this.#finished.clear();
    this.#until.clear();
    this.#loadedUntil = undefined;
    this.#totals = undefined;
    this.#opened = { version, warehouse };
    return warehouse;
  }

  /** Loads one batch of a lane; returns whether there is more to load. */
  async #loadLane(loading: Loading): Promise<boolean> {
    const { log, catalog, clock, elapsed, metrics, bounds } = this.#dependencies;
    const { warehouse, destination, lane, isRequested } = loading;
    const { signal } = this.#closing;
    const began = clock();
    const { newest, note } = await this.#newest(loading);
    const { ranges, missed, replaced } = continuation(await boundsOf(log, lane, destination), newest);
    await this.#reportMissed(loading, newest, missed);
    if (lane.replay !== undefined && newest !== undefined && ranges.every(({ from, to }) => from >= to)) {
      this.#finished.add(lane.id);
      return false;
    }
    const passed = this.#passed.get(lane.id);
    const todo = passed !== undefined && passed.seq === (newest?.seq ?? 0) ? behind(ranges, passed) : ranges;
    const { org_id: org = -1 } =
      catalog.state.organization(organizationOf(catalog.state, destination.workspace_id)) ?? {};
    const { region = '' } = catalog.state.workspace(destination.workspace_id) ?? {};
    const isOurs = isOfWorkspace(destination.workspace_id, { org, region });
    const bytes = Math.min(bounds.bytes, warehouse.limits.batchBytes);
    const read = await readRecords({ log, elapsed, signal, isOurs }, todo, { ...bounds, bytes });
    const isAtEnd = read.ranges.every(({ to }, at) => to >= (ranges[at]?.to ?? to));
    const isFinished = lane.replay !== undefined && isAtEnd;
    // The ledger has no holes: its ranges begin where the newest row ends.
    const done = read.ranges.map((range, at) => ({ ...range, from: ranges[at]?.from ?? range.from }));
    const isDue =
      read.entries.length > 0 ||
      isFinished ||
      isRequested ||
      newest === undefined ||
      clock() - Date.parse(newest.loadedAt) > COMMIT_EMPTY_AFTER_MS;
    if (!isDue) {
      this.#passed.set(lane.id, { seq: newest.seq, ranges: read.ranges });
      if (lane.id === LIVE_LANE) this.#noteUntil(read, ranges, began);
      return read.more;
    }
    const seq = (newest?.seq ?? 0) + 1;
    const made = await makeBatch(this.#batchTools(loading), { seq, ranges: done, entries: read.entries });
    this.#attempts += 1;
    const result = await warehouse.commit({ ...made.batch, attempt: this.#attempts }, signal);
    // Another loader was faster: the next batch begins with its ledger row.
    if (!result.done) return true;
    this.#passed.delete(lane.id);
    this.#recorded.delete(lane.id);
    if (lane.id === LIVE_LANE) this.#noteUntil(read, ranges, began);
    const load = {
      ...made.recordOf(result),
      lane: lane.id,
      id: made.batch.ledger.batch,
      seq,
      ranges: done,
      began: iso(began),
      ended: made.batch.ledger.loadedAt,
      ...(lane.id === LIVE_LANE && this.#loadedUntil !== undefined && { until: iso(this.#loadedUntil) }),
      ...noteOf([note, replacedNote(replaced), made.note]),
    };
    const record = await this.#record(destination, load, warehouse.storesHere === true ? read.bytes : 0);
    if (isFinished) this.#finished.add(lane.id);
    await this.#reportProgress(loading, done, made.events, seq, isFinished);
    const { type: connector } = destination;
    const sum = (counts: Readonly<Record<string, number>>) =>
      Object.values(counts).reduce((total, count) => total + count, 0);
    metrics.count('tributary_warehouse_rows_total', { connector }, sum(record.rows));
    metrics.count('tributary_warehouse_discards_total', { connector }, sum(record.discards));
    metrics.count('tributary_warehouse_bytes_total', { connector }, read.bytes);
    metrics.observe('tributary_warehouse_load_duration_seconds', (clock() - began) / 1_000, { connector });
    return read.more;
  }

  /**
   * What was read is loaded: until the ends were looked up where they were reached, else until its last record. A partition of
   * which nothing could be read stays where it was.
   */
  #noteUntil({ ranges, lastAt }: ReadRecords, wanted: readonly LogRange[], began: number): void {
    for (const [at, { topic, partition, to }] of ranges.entries()) {
      const until = to >= (wanted[at]?.to ?? to) ? began : lastAt[at];
      if (until !== undefined) this.#until.set(`${topic}/${partition}`, until);
    }
    const known = ranges.map(({ topic, partition }) => this.#until.get(`${topic}/${partition}`));
    this.#loadedUntil = known.includes(undefined)
      ? undefined
      : Math.min(...known.filter((at) => at !== undefined));
  }

  #batchTools({ warehouse, destination, lane }: Loading): BatchTools {
    const { signal } = this.#closing;
    return { ...this.#dependencies, warehouse, destination, lane, signal, told: this.#told };
  }

  /** Records a load, with the rows of all loads so far. */
  async #record(
    destination: Destination,
    load: Omit<LoadRecord, 'kind' | 'destination_id' | 'workspace_id' | 'totals'>,
    storedBytes = 0,
  ): Promise<LoadRecord> {
    const { history, records } = this.#dependencies;
    const { workspace_id, id: destination_id } = destination;
    this.#totals ??= (await newestLoad(history, destination))?.totals ?? {};
    const totals: Record<string, number> = { ...this.#totals };
    for (const [table, rows] of Object.entries(load.rows)) totals[table] = (totals[table] ?? 0) + rows;
    const record: LoadRecord = { kind: 'loaded', destination_id, workspace_id, ...load, totals };
    await records.append(record, storedBytes);
    this.#totals = totals;
    this.#recorded.add(load.lane);
    return record;
  }

  /**
   * The newest ledger row of a lane. Where the ledger is gone although history has loads, that of the newest load in history. A
   * row that a killed loader committed and did not record is recorded.
   */
  async #newest({
    warehouse,
    destination,
    lane,
  }: Loading): Promise<{ readonly newest: LedgerRow | undefined; readonly note?: string }> {
    const { history } = this.#dependencies;
    const newest = await warehouse.newest(lane.id, this.#closing.signal);
    if (newest === undefined) {
      const last = await newestLoad(history, destination, lane.id);
      if (last === undefined) return { newest };
      const { id: batch, seq, ranges, rows, ended: loadedAt } = last;
      return {
        newest: { lane: lane.id, seq, batch, ranges, rows, loadedAt },
        note: `the ledger had no row of this lane, so it goes on behind the load ${batch} of ${loadedAt}`,
      };
    }
    if (this.#recorded.has(lane.id)) return { newest };
    if ((await history.get('load', destination.workspace_id, newest.batch)) === undefined)
      await this.#record(destination, {
        lane: lane.id,
        id: newest.batch,
        seq: newest.seq,
        ranges: newest.ranges,
        began: null,
        ended: newest.loadedAt,
        rows: newest.rows,
        discards: {},
        samples: [],
        changes: [],
      });
    this.#recorded.add(lane.id);
    return { newest };
  }

  async #reportMissed(
    { destination, lane }: Loading,
    newest: LedgerRow | undefined,
    missed: readonly LogRange[],
  ): Promise<void> {
    if (missed.length === 0) return;
    const { logger } = this.#dependencies;
    const note = `the log no longer keeps ${rangesText(missed)}: what it held of this workspace is not loaded`;
    logger.error({ destination: destination.id, lane: lane.id, missed }, note);
    const id = nameId('missed', destination.id, lane.id, newest?.seq ?? 0);
    await this.#recordFailure(destination, { id, lane: lane.id, ranges: missed, code: 'missed', note });
  }

  async #recordFailure(
    destination: Destination,
    failure: Pick<LoadRecord, 'id' | 'lane' | 'ranges' | 'code' | 'note'>,
  ): Promise<void> {
    const { clock, records } = this.#dependencies;
    const at = iso(clock());
    await records.append({
      destination_id: destination.id,
      workspace_id: destination.workspace_id,
      kind: 'failed',
      seq: 0,
      began: at,
      ended: at,
      rows: {},
      discards: {},
      samples: [],
      changes: [],
      totals: {},
      ...failure,
    });
  }

  /** The progress of a replay for a rule of the warehouse, as the stage `replay` reports others. */
  async #reportProgress(
    { destination, lane: { replay } }: Loading,
    done: readonly LogRange[],
    events: number,
    seq: number,
    isFinished: boolean,
  ): Promise<void> {
    const { catalog, clock, history, log, records } = this.#dependencies;
    if (replay === undefined || !isOfWarehouse(catalog.state, replay)) return;
    const before = await history.get('replay', replay.workspace_id, replay.id);
    const known = before?.body as unknown as ReplayStep | undefined;
    const bounds = await boundsOf(log, { id: replay.id, replay }, destination);
    const step: ReplayStep = {
      replay_id: replay.id,
      workspace_id: replay.workspace_id,
      number: seq,
      status: isFinished ? 'finished' : 'running',
      cursors: bounds.map(({ partition, start, end }) => {
        const next = done.find((range) => range.partition === partition)?.to ?? start;
        return { partition, from: Math.min(start, next), next, end: Math.max(end, next) };
      }),
      looked_at: (known?.looked_at ?? 0) + events,
      events: (known?.events ?? 0) + events,
      loaded_into: destination.id,
      created_at: replay.created_at,
      at: iso(clock()),
    };
    await records.appendStep(step);
  }

  /** Ends backfills whose rule was deleted, as the stage `replay` ends other replays. */
  async #endAbandoned(destination: Destination): Promise<void> {
    const { catalog, clock, history, records, retentionMs } = this.#dependencies;
    const since = clock() - retentionMs;
    for (const { id, workspace_id } of abandonedReplays(catalog.state, destination, this.#finished, since)) {
      const entry = await history.get('replay', workspace_id, id);
      const step = entry?.body as unknown as ReplayStep | undefined;
      // History may be behind: it is asked again at the next load.
      if (step === undefined) continue;
      if (step.status === 'running' && step.loaded_into === destination.id) {
        const ended = { status: 'failed', reason: 'the rule was deleted', at: iso(clock()) } as const;
        await records.appendStep({ ...step, ...ended, number: step.number + 1 });
      }
      this.#finished.add(id);
    }
  }

  async #fail(destination: Destination, error: unknown, durationMs: number): Promise<void> {
    const { logger, elapsed } = this.#dependencies;
    const code =
      error instanceof Unavailable ? 'unavailable' : error instanceof WarehouseRefused ? 'refused' : 'fault';
    const reason = code === 'fault' ? 'unexpected failure' : messageOf(error);
    this.#failedAt = elapsed();
    this.#noteResult(reason, durationMs);
    if (this.#failure === reason) return;
    const about = { destination: destination.id, code, error: messageOf(error) };
    const stack = code === 'fault' && error instanceof Error ? { stack: error.stack } : {};
    logger.warn(
      { ...about, ...stack },
      'a warehouse cannot be loaded for now; what it lacks stays in the log',
    );
    try {
      const failure = { id: newId(), lane: LIVE_LANE, ranges: [], code, note: reason };
      await this.#recordFailure(destination, failure);
      this.#failure = reason;
    } catch (failed) {
      logger.warn({ ...about, error: messageOf(failed) }, 'the failure of a load cannot be recorded');
    }
  }

  /** `reason`: of a failure. */
  #noteResult(reason: string | undefined, durationMs: number): void {
    const { clock, elapsed, metrics } = this.#dependencies;
    const wasFailing = this.#failures > 0;
    this.#failures = reason === undefined ? 0 : this.#failures + 1;
    if (reason === undefined) this.#failure = undefined;
    if (wasFailing !== this.#failures > 0) this.#circuitSince = clock();
    const result =
      reason === undefined ? ({ outcome: 'delivered' } as const) : ({ outcome: 'retry', reason } as const);
    this.#tally.attempted(result, durationMs, clock(), elapsed());
    metrics.count('tributary_warehouse_loads_total', { outcome: reason === undefined ? 'loaded' : 'failed' });
  }
}

/** The ranges without what was read and held nothing of the workspace. */
function behind(ranges: readonly LogRange[], passed: Passed): readonly LogRange[] {
  const next = new Map(passed.ranges.map((range) => [`${range.topic}/${range.partition}`, range.to]));
  return ranges.map((range) => {
    const from = next.get(`${range.topic}/${range.partition}`) ?? range.from;
    return { ...range, from: Math.min(Math.max(from, range.from), range.to) };
  });
}

function noteOf(notes: readonly (string | undefined)[]): Pick<LoadRecord, 'note'> {
  const known = notes.filter((note) => note !== undefined);
  return known.length === 0 ? {} : { note: known.join('; ') };
}

function replacedNote(replaced: readonly LogRange[]): string | undefined {
  if (replaced.length === 0) return undefined;
  return `the log ends before the ledger in ${rangesText(replaced)}: it was replaced and is read from its first record`;
}

function unsealed(unseal: LoaderDependencies['unseal'], destination: Destination): ConnectorDestination {
  try {
    return unseal(destination);
  } catch (error) {
    throw new WarehouseRefused('no key opens the secrets of the destination', { cause: error });
  }
}

/** Bytes of one read of the log. */
const READ_BYTES = 256 * 1024;
/** Bytes that are read for one batch at most, those of other workspaces included: then others have a turn. */
const MAX_READ_BYTES = 64 * 1024 * 1024;

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

/** What decides when a warehouse is loaded next. Times are ms of a monotonic clock. */
export interface Timing {
  readonly everyMs: number;
  /** When the last load began; undefined before the first. */
  readonly beganAt: number | undefined;
  /** Somebody asked for a load since then. */
  readonly isRequested: boolean;
  /** The last load stopped at a bound of its batch. */
  readonly hasMore: boolean;
  /** There is a backfill that is not known to be finished. */
  readonly isBackfilling: boolean;
  /** Failures in a row, the last of them at `failedAt`. */
  readonly failures: number;
  readonly failedAt: number;
}

/** The first wait after a failure, ms; each further one is twice as long, up to the interval of the loads. */
const FIRST_WAIT_MS = 2_000;

/** The interval while a backfill waits for records that cannot be read yet, ms. */
const BACKFILL_MS = 1_000;

/** How long to wait before the next load, ms. */
export function loadWaitMs(timing: Timing, now: number): number {
  const { everyMs, beganAt, isRequested, hasMore, isBackfilling, failures, failedAt } = timing;
  if (isRequested) return 0;
  if (failures > 0) {
    const wait = backoffMs(failures - 1, { firstMs: FIRST_WAIT_MS, capMs: everyMs });
    return Math.max(0, failedAt + wait - now);
  }
  if (hasMore || beganAt === undefined) return 0;
  return Math.max(0, beganAt + (isBackfilling ? Math.min(everyMs, BACKFILL_MS) : everyMs) - now);
}

/** A warehouse into which nothing was loaded for so many intervals is behind. */
export const BEHIND_INTERVALS = 2;
