import {
  type Backoff,
  type BatchStage,
  backoffMs,
  type Clock,
  type EventLog,
  EventLoopYielder,
  type FlowStage,
  type LogEntry,
  type Logger,
  type Metrics,
  messageOf,
  Rewind,
  type Source,
  type Stage,
} from '@tributary/core';
import { quarantineTaken, workBatch } from './batch-work.ts';
import { FlowWork } from './flow-work.ts';
import {
  CrashWatch,
  type InFlightEntries,
  type InFlightTable,
  PartitionSuspects,
  type Treatment,
} from './suspects.ts';
import {
  Committer,
  type Cursor,
  compareCursors,
  earlier,
  FETCH_BYTES,
  failureOf,
  type OwnedPartition,
  pause,
  type Runner,
  type StageSpace,
  type Taken,
  unlessAborted,
  type Work,
} from './work.ts';

const DEFAULT_BATCH_ENTRIES = 1_000;

/** A partition that waits longer than this for its first entry drops the entries behind it from memory meanwhile, ms. */
const LONG_WAIT_MS = 1_000;

/** How often an entry that waits for another partition is tried, ms. */
const BARRIER_MS = 100;

/** How often a partition looks for space while the disk is full, ms. */
const FULL_MS = 250;

/** How long a stop waits for the last position to be stored, ms; without it the next owner repeats the work. */
const LAST_POSITION_MS = 2_000;

/** Shared by the stages that one log runs. */
export interface StageRunner extends Runner {
  readonly crashes: CrashWatch;
}

/** The settings of a log for the stages that it runs. */
export interface RunnerOptions {
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** Epoch ms; default `Date.now`. For due times. */
  readonly clock?: Clock;
  /** Uncommitted entries of one partition in a flow stage, at most. Default 100,000. */
  readonly maxUncommitted?: number;
  /** Pauses before repetitions, ms: the first, doubled up to the cap. Default 50 to 5,000. */
  readonly backoff?: Backoff;
  /** Records the entries that the stages have in flight, to be read after a crash of their thread. Default: a private one. */
  readonly inFlight?: InFlightTable | undefined;
  /** Default: unlimited. */
  readonly space?: StageSpace | undefined;
  /** How long a stage may take to finish its entries when it stops or a partition moves, ms. Default 10,000. */
  readonly stopGraceMs?: number;
}

export function createRunner(
  log: Pick<EventLog, 'topics' | 'read' | 'end'>,
  { inFlight, ...options }: RunnerOptions,
): StageRunner {
  return {
    crashes: new CrashWatch(log, inFlight),
    space: options.space ?? { isFull: () => false, isSpent: () => false },
    backoff: options.backoff ?? { firstMs: 50, capMs: 5_000 },
    maxUncommitted: options.maxUncommitted ?? 100_000,
    stopGraceMs: options.stopGraceMs ?? 10_000,
    clock: options.clock ?? Date.now,
    metrics: options.metrics,
    logger: options.logger,
  };
}

interface LoopOptions {
  readonly runner: StageRunner;
  readonly stage: Stage;
  readonly source: Source;
  readonly owned: OwnedPartition;
  /** Fires when no more entries are to be dispatched. */
  readonly stopping: AbortSignal;
  /** Fires when the dispatched entries are to be dropped. */
  readonly leaving: AbortSignal;
}

/**
 * Runs a stage on one partition: fetches entries, waits until they are due, dispatches them and commits. Partitions do not
 * wait for each other.
 */
export class PartitionLoop {
  readonly #options: LoopOptions;
  readonly #committer: Committer;
  /** Restarts in a row without a commit in between. */
  #restarts = 0;
  #suspects: PartitionSuspects;
  readonly #appendTimes: AppendTimes;

  constructor(options: LoopOptions) {
    this.#options = options;
    const { owned, stage, runner } = options;
    this.#suspects = new PartitionSuspects([]);
    this.#appendTimes = new AppendTimes(runner.clock, () => this.#repeated('asking for the end', owned.end));
    this.#committer = new Committer(stage, owned, runner);
  }

  get committed(): Cursor {
    return this.#committer.committed;
  }

  /** See `Committer.reached`. */
  get reached(): Cursor {
    return this.#committer.reached;
  }

  /**
   * Resolves after `stopping`, or when the work fails after `leaving`. Rejects with `PartitionLost` once the partition has a
   * newer owner, and with any other error that is neither repeated (`Unavailable`) nor followed by a restart (`Rewind`,
   * `Fenced`).
   */
  async run(): Promise<void> {
    const { stage, owned, runner } = this.#options;
    const { crashes } = runner;
    const { topic, partition } = owned;
    const suspects = await this.#repeated('reading noted crashes', () =>
      crashes.suspectsOf(stage, topic, partition),
    );
    if (suspects === undefined) return;
    this.#suspects = suspects;
    const inFlight = crashes.table.open({ stage: stage.name, topic, partition });
    try {
      await this.#run(inFlight);
    } finally {
      inFlight.close();
    }
  }

  async #run(inFlight: InFlightEntries): Promise<void> {
    const { stopping, leaving, runner } = this.#options;
    let from = this.committed;
    while (!stopping.aborted) {
      const committedBefore = this.committed;
      try {
        await this.#pull(from, inFlight);
      } catch (thrown) {
        if (leaving.aborted) return;
        from = this.#restartFrom(thrown);
        this.#restarts = this.committed === committedBefore ? this.#restarts + 1 : 0;
        await pause(this.#restarts === 0 ? 0 : backoffMs(this.#restarts - 1, runner.backoff), stopping);
      }
    }
  }

  /** The cursor to restart from after an error; throws any error that a restart does not follow. */
  #restartFrom(thrown: unknown): Cursor {
    const { stage, owned, runner } = this.#options;
    const failure = failureOf(thrown);
    if (failure !== 'rewind' && failure !== 'restart') throw thrown;
    const { topic, partition } = owned;
    const fields = { stage: stage.name, topic, partition, error: messageOf(thrown) };
    runner.logger.warn(fields, 'partition restarts');
    if (!(thrown instanceof Rewind)) return this.committed;
    return earlier({ offset: Math.max(0, thrown.offset), index: 0 }, this.committed);
  }

  async #pull(from: Cursor, inFlight: InFlightEntries): Promise<void> {
    const own = new AbortController();
    const { signal } = own;
    const { leaving, stopping, stage, owned, runner } = this.#options;
    // `AbortSignal.any` checks all its signals at every access, which is for every entry.
    const leave = () => own.abort(leaving.reason);
    leaving.addEventListener('abort', leave, { once: true, signal });
    if (leaving.aborted) leave();
    const work: Work = {
      runner,
      stage,
      committer: this.#committer,
      inFlight,
      context: { signal, end: owned.end },
      signal,
      stopping,
    };
    this.#committer.forget();
    try {
      if (stage.kind === 'batch') await this.#pullBatches(stage, from, work);
      else await this.#pullFlow(stage, from, work, own);
    } finally {
      own.abort(new Error('the partition restarts or was left'));
      inFlight.clear();
    }
  }

  async #pullBatches(stage: BatchStage, from: Cursor, work: Work): Promise<void> {
    const maxEntries = stage.maxEntries ?? DEFAULT_BATCH_ENTRIES;
    const { stopping, runner } = this.#options;
    for await (const ready of this.#ready(from, maxEntries)) {
      if (ready.length === 0) await this.#commitReached(work.signal, stopping);
      for (let at = 0; at < ready.length && !stopping.aborted; ) {
        if (runner.space.isFull()) {
          await this.#untilSpace();
          continue;
        }
        const batch = this.#suspects.cut(this.#cutReplay(ready.slice(at, at + maxEntries)));
        await this.#workBatch(stage, batch, work);
        at += batch.length;
      }
    }
    const soon = AbortSignal.timeout(LAST_POSITION_MS);
    await unlessAborted(this.#commitReached(work.signal, soon), soon).catch((thrown: unknown) => {
      if (!soon.aborted) throw thrown;
    });
  }

  /** Commits the position reached, repeating it until `over` fires: a stop does not wait for it for long. */
  async #commitReached(signal: AbortSignal, over: AbortSignal): Promise<void> {
    try {
      await this.#committer.commitReached(AbortSignal.any([signal, over]));
    } catch (thrown) {
      if (signal.aborted || !over.aborted) throw thrown;
    }
  }

  /** Entries read again after a rewind make batches of their own, as their output records are dropped. */
  #cutReplay(batch: readonly Taken[]): readonly Taken[] {
    const fresh = batch.findIndex(({ entry }) => !this.#committer.isReplay(entry.position));
    return fresh > 0 ? batch.slice(0, fresh) : batch;
  }

  async #workBatch(stage: BatchStage, batch: readonly Taken[], work: Work): Promise<void> {
    const [first] = batch;
    if (first === undefined) return;
    const { isolation } = this.#options.runner.crashes;
    const treatment = this.#suspects.treatmentOf(first.entry);
    if (treatment === 'normal') {
      await isolation.released(work.stopping);
      return workBatch(stage, batch, work);
    }
    if (treatment !== 'alone') return quarantineTaken(first, treatment.quarantined, work);
    let working = Promise.resolve();
    const start = () => {
      working = workBatch(stage, batch, work);
      return working;
    };
    await isolation.alone(work.inFlight, start, work.signal);
    await working;
  }

  async #pullFlow(stage: FlowStage, from: Cursor, work: Work, own: AbortController): Promise<void> {
    const { stopping, leaving, runner } = this.#options;
    const { isolation } = runner.crashes;
    const flow = new FlowWork(stage, work);
    const thread = new EventLoopYielder(() => performance.now());
    try {
      for await (const ready of this.#ready(from, DEFAULT_BATCH_ENTRIES, flow.ended)) {
        for (const taken of ready) {
          if (runner.space.isFull()) await this.#untilSpace();
          // A stage may be done with each entry at once.
          if (thread.isYieldDue) await thread.yield();
          const treatment = this.#suspects.treatmentOf(taken.entry);
          if (treatment === 'normal') {
            if (isolation.dispatchPause !== undefined) await isolation.released(stopping);
            while (!stopping.aborted && !flow.tryAdmit(taken)) await flow.changed();
          } else await this.#dispatchSuspect(flow, taken, treatment, work);
          if (stopping.aborted) break;
        }
      }
      await flow.drained();
    } catch (thrown) {
      own.abort(thrown);
      // The next pull dispatches the same entries again, which the stage must not have in flight any more.
      await flow.noneInFlight(leaving);
      throw thrown;
    }
  }

  async #dispatchSuspect(
    flow: FlowWork,
    taken: Taken,
    treatment: Exclude<Treatment, 'normal'>,
    work: Work,
  ): Promise<void> {
    if (treatment !== 'alone') {
      flow.quarantine(taken, treatment.quarantined);
      return;
    }
    const { stopping, runner } = this.#options;
    const done = async () => {
      while (!stopping.aborted && !flow.tryAdmit(taken)) await flow.changed();
      await flow.drained();
    };
    flow.isThrottled = false;
    await runner.crashes.isolation.alone(work.inFlight, done, work.signal);
    flow.isThrottled = true;
  }

  /**
   * Entries from the cursor on that are due, until stopping or `ended` fires; an empty list when none arrived while a position
   * is to be stored.
   */
  async *#ready(from: Cursor, maxEntries: number, ended?: AbortSignal): AsyncGenerator<readonly Taken[]> {
    const { stopping, source, runner } = this.#options;
    const signal = ended ? AbortSignal.any([stopping, ended]) : stopping;
    let cursor = from;
    let waiting: readonly Taken[] = [];
    let appendedAt: readonly number[] = [];
    while (!signal.aborted) {
      if (waiting.length === 0) {
        waiting = await this.#fetch(cursor, maxEntries, signal);
        appendedAt = source.dueAt === undefined ? [] : await this.#appendTimes.of(waiting);
        cursor = waiting.at(-1)?.after ?? cursor;
        if (waiting.length === 0) yield [];
        continue;
      }
      const now = runner.clock();
      appendedAt = appendedAt.map((at) => Math.min(at, now));
      const due = dueNow(source, waiting, appendedAt, now);
      if (due.wakeAt !== undefined) {
        const waitMs = due.wakeAt - runner.clock();
        if (waitMs > LONG_WAIT_MS) {
          waiting = waiting.slice(0, 1);
          cursor = waiting[0]?.after ?? cursor;
        }
        const { isBehind } = this.#committer;
        const positionMs = isBehind ? this.#committer.positionPauseMs() : LONG_WAIT_MS;
        // At least every second, as the clock may jump.
        if (positionMs > 0) await pause(Math.min(waitMs, LONG_WAIT_MS, positionMs), signal);
        if (isBehind) yield [];
        continue;
      }
      const open = await this.#open(waiting, due.count, signal);
      if (open > 0) {
        yield waiting.slice(0, open);
        waiting = waiting.slice(open);
        appendedAt = appendedAt.slice(open);
        continue;
      }
      await pause(BARRIER_MS, signal);
      if (this.#committer.isBehind && this.#committer.positionPauseMs() <= 0) yield [];
    }
  }

  /** Waits while the disk is full: entries stay in the log, and what was taken finishes in the space that is left. */
  async #untilSpace(): Promise<void> {
    const { stopping, runner } = this.#options;
    while (runner.space.isFull() && !stopping.aborted) await pause(FULL_MS, stopping);
  }

  /** How many of the first `count` entries need not wait for other partitions. */
  async #open(waiting: readonly Taken[], count: number, signal: AbortSignal): Promise<number> {
    const { barrier } = this.#options.owned;
    const [first] = waiting;
    if (barrier === undefined || first === undefined) return count;
    const open = barrier.countOpen(waiting);
    if (open > 0) return Math.min(open, count);
    const isOpen = await this.#repeated(
      'waiting for another partition',
      () => barrier.tryOpen(first),
      signal,
    );
    return isOpen === true ? 1 : 0;
  }

  async #fetch(from: Cursor, maxEntries: number, signal: AbortSignal): Promise<readonly Taken[]> {
    const { owned, stage } = this.#options;
    const fetch = () => {
      // A flow stage dispatches at once and pauses before it commits.
      const gatherMs = stage.kind === 'batch' ? this.#committer.pauseMs() : 0;
      const waitMs = this.#committer.isBehind ? this.#committer.positionPauseMs() : undefined;
      const limits = { maxBytes: FETCH_BYTES, maxEntries, gatherMs };
      return owned.fetch(from, waitMs === undefined ? limits : { ...limits, waitMs }, signal);
    };
    return (await this.#repeated('fetch', fetch, signal)) ?? [];
  }

  /** The answer of the engine, requested again while it is `Unavailable`; undefined once the signal fired. */
  async #repeated<T>(
    what: string,
    request: () => Promise<T>,
    signal = this.#options.stopping,
  ): Promise<T | undefined> {
    const { owned, stage, runner } = this.#options;
    for (let repetition = 0; !signal.aborted; repetition++) {
      try {
        return await request();
      } catch (thrown) {
        if (failureOf(thrown) !== 'repeat') throw thrown;
        const { topic, partition } = owned;
        const fields = { stage: stage.name, topic, partition, repetition, error: messageOf(thrown) };
        runner.logger.warn(fields, `${what} will be repeated`);
        await pause(backoffMs(repetition, runner.backoff), signal);
      }
    }
    return undefined;
  }
}

type Dated = { readonly entry: Pick<LogEntry, 'position' | 'timestamp'> };

/** All entries before this offset had been appended by this time, epoch ms. */
interface KnownEnd {
  readonly offset: number;
  readonly at: number;
}

/**
 * When entries that were read at `readAt` were appended, epoch ms: never decreasing, whatever the clocks did that stamped
 * them. An entry was appended no later than those behind it, and than it was first known of.
 */
export function appendTimes(waiting: readonly Dated[], readAt: number, known: KnownEnd): readonly number[] {
  const times = new Array<number>(waiting.length);
  let latest = readAt;
  for (let at = waiting.length - 1; at >= 0; at--) {
    const entry = waiting[at]?.entry;
    if (entry === undefined) continue;
    if (entry.position.offset < known.offset) latest = Math.min(latest, known.at);
    latest = Math.min(latest, entry.timestamp);
    times[at] = latest;
  }
  return times;
}

/** The append times of the entries that one partition returns, as they are read. */
export class AppendTimes {
  readonly #clock: Clock;
  readonly #end: () => Promise<number | undefined>;
  #known: KnownEnd = { offset: 0, at: 0 };

  /** `end`: the end of the partition; undefined where it is not known. */
  constructor(clock: Clock, end: () => Promise<number | undefined>) {
    this.#clock = clock;
    this.#end = end;
  }

  /** Asks for the end of the partition where a clock was ahead that stamped entries. */
  async of(waiting: readonly Dated[]): Promise<readonly number[]> {
    const readAt = this.#clock();
    const last = waiting.at(-1)?.entry.position.offset ?? 0;
    const times = appendTimes(waiting, readAt, this.#known);
    if (last >= this.#known.offset && waiting.some(({ entry }) => entry.timestamp > readAt)) {
      const offset = await this.#end();
      if (offset !== undefined) this.#known = { offset, at: this.#clock() };
    }
    return times;
  }
}

interface Due {
  /** How many entries from the first on are due. */
  readonly count: number;
  /** When the first is due; absent where it is. */
  readonly wakeAt?: number;
}

/** `appendedAt`: the append times of the entries, see `appendTimes`. */
function dueNow(source: Source, waiting: readonly Dated[], appendedAt: readonly number[], now: number): Due {
  if (source.dueAt === undefined && source.end === undefined) return { count: waiting.length };
  for (const [count, { entry }] of waiting.entries()) {
    const due = dueAt(source, entry, appendedAt[count]);
    if (due > now) return count === 0 ? { count, wakeAt: due } : { count };
  }
  return { count: waiting.length };
}

function dueAt(source: Source, { position, timestamp }: Dated['entry'], appendedAt = timestamp): number {
  if (position.offset >= (source.end?.(position.partition) ?? Number.POSITIVE_INFINITY))
    return Number.POSITIVE_INFINITY;
  return source.dueAt?.(appendedAt) ?? 0;
}

/** Reads kept of a partition: one for each of the stages that read `events.accepted`. */
const KEPT = 4;

/** A read of a partition: all entries from one cursor to another, in order. */
export interface Read {
  readonly from: Cursor;
  readonly after: Cursor;
  readonly taken: readonly Taken[];
}

/** The entries of a read from the cursor on, which is within it. */
export function entriesFrom({ taken }: Read, cursor: Cursor): readonly Taken[] {
  const first = taken.findIndex(({ entry }) => compareCursors(entry.position, cursor) >= 0);
  if (first === 0) return taken;
  return first < 0 ? [] : taken.slice(first);
}

/**
 * The last reads of one partition. Stages of a process that are near each other hold the same entries: of the four that read
 * `events.accepted`, three find what the first has read and decoded.
 */
export class RecentReads {
  #reads: readonly Read[] = [];
  readonly #underWay = new Map<number, Promise<Read | undefined>>();

  /** A read that has the entry at the cursor; undefined where none has. */
  find(cursor: Cursor): Read | undefined {
    return this.#reads.findLast(
      ({ from, after }) => compareCursors(from, cursor) <= 0 && compareCursors(cursor, after) < 0,
    );
  }

  add(read: Read): void {
    this.#reads = [...this.#reads.slice(1 - KEPT), read];
  }

  /** A recent read that has the offset, or one that another stage waits for, else what `request` resolves to. */
  async findOr(offset: number, request: () => Promise<Read | undefined>): Promise<Read | undefined> {
    const found = this.find({ offset, index: 0 });
    if (found !== undefined) return found;
    const underWay = this.#underWay.get(offset);
    if (underWay === undefined) return this.#request(offset, request);
    // Where the other stage stopped or failed, this one has to request it too.
    return (await underWay.catch(() => undefined)) ?? this.#request(offset, request);
  }

  clear(): void {
    this.#reads = [];
  }

  async #request(offset: number, request: () => Promise<Read | undefined>): Promise<Read | undefined> {
    const requested = request();
    this.#underWay.set(offset, requested);
    try {
      const read = await requested;
      if (read !== undefined) this.add(read);
      return read;
    } finally {
      if (this.#underWay.get(offset) === requested) this.#underWay.delete(offset);
    }
  }
}

interface SharedTopic {
  stages: number;
  /** By partition. */
  readonly reads: Map<number, RecentReads>;
}

/** Recent reads that the stages of a process share, of topics that more than one of them reads. */
export class SharedReads {
  readonly #topics = new Map<string, SharedTopic>();

  /** A stage begins to read its topics; the function that is returned ends it. */
  join(topics: readonly string[]): () => void {
    const joined = topics.map((topic) => this.#of(topic));
    for (const topic of joined) topic.stages++;
    return () => {
      for (const topic of joined) if (--topic.stages <= 1) topic.reads.clear();
    };
  }

  /** Undefined where one stage alone reads the topic: no other would find what it has read. */
  of(topic: string, partition: number): RecentReads | undefined {
    const { stages, reads } = this.#of(topic);
    if (stages <= 1) return undefined;
    const known = reads.get(partition) ?? new RecentReads();
    reads.set(partition, known);
    return known;
  }

  #of(topic: string): SharedTopic {
    const known = this.#topics.get(topic) ?? { stages: 0, reads: new Map() };
    this.#topics.set(topic, known);
    return known;
  }
}
