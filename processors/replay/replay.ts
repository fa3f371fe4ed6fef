import {
  asyncHandler,
  type Catalog,
  type DedupeClaim,
  type EventLog,
  EventLoopYielder,
  type FlowStage,
  HEADER,
  InvalidInput,
  iso,
  type LogEntry,
  type OutputRecord,
  parseObject,
  REPLAY_START_DEADLINE_MS,
  REPLAY_TICK_MS,
  type Replay,
  type ReplayCursor,
  type ReplayStep,
  recordChars,
  type ThreadTurns,
  TOPIC,
} from '@tributary/core';
import { awaitCatalog, awaitFact, factIn } from '../catalog-position.ts';
import { timeOf } from '../event-record.ts';
import { isOfWarehouse } from '../load/lanes.ts';
import { mayReferTo } from '../record-reader.ts';
import type { StageParts } from '../stages.ts';
import {
  compare,
  comparedSince,
  mark,
  mayBeForgotten,
  type ReevaluationDependencies,
  reevaluate,
  type Selection,
  toRoute,
} from './selection.ts';

interface StepDependencies
  extends ReevaluationDependencies,
    Pick<StageParts, 'clock' | 'elapsed' | 'retentionMs'> {
  readonly log: Pick<EventLog, 'read' | 'end' | 'first' | 'offsetAt' | 'topics'>;
  readonly catalog: Pick<Catalog, 'state' | 'position'>;
  readonly reads: ReadBudgets;
  /** Runs the filters of the rules. */
  readonly scheduler: ThreadTurns;
}

type ReplayDependencies = Omit<StepDependencies, 'reads' | 'scheduler' | 'catalog'> &
  Pick<StageParts, 'catalog' | 'metrics' | 'budgets'>;

type SteppingDependencies = ReplayDependencies & Pick<StepDependencies, 'reads' | 'scheduler'>;

/**
 * The stage `replay`. A fact of the catalog begins a replay; each record of `replays` or `replays.waiting` is a step: it reads
 * the next accepted events of the replay's time range, sends those that match its rules to the slow queue of route, and emits
 * the next step, which is due a tick later. A replay of rejected events sends those that pass their contract now to the slow
 * queue of validate. Output records are committed with the step, so no crash repeats an event.
 */
export function replay(dependencies: ReplayDependencies, scheduler: ThreadTurns): FlowStage['handle'] {
  const stepping = { ...dependencies, scheduler, reads: createReadBudgets(dependencies.elapsed) };
  return asyncHandler((entry) =>
    entry.position.topic === TOPIC.catalog ? begin(dependencies, entry) : continueReplay(stepping, entry),
  );
}

/** The first step; none for a fact that is about something else, was refused, or is too old. */
async function begin(dependencies: ReplayDependencies, entry: LogEntry): Promise<readonly OutputRecord[]> {
  const fact = factIn(entry);
  if (fact?.type !== 'replay.created') return [];
  const { catalog, clock } = dependencies;
  if (clock() - timeOf(fact.at) > REPLAY_START_DEADLINE_MS) return [];
  const position = await awaitFact(catalog, entry);
  const { workspace_id, id } = fact.data;
  const asked = catalog.state.entity('replay', workspace_id, id);
  if (asked === undefined || asked.created_at !== fact.at) return [];
  // Its loader reads the events, and reports the steps.
  if (isOfWarehouse(catalog.state, asked)) return [];
  return [stepRecord(await firstStep(dependencies, asked, position), asked, position)];
}

async function continueReplay(
  dependencies: SteppingDependencies,
  entry: LogEntry,
): Promise<readonly OutputRecord[]> {
  const { catalog, clock, metrics } = dependencies;
  await awaitCatalog(catalog, [entry]);
  const step = stepIn(entry);
  if (step.status !== 'running' || step.loaded_into !== undefined) return [];
  const asked = catalog.state.entity('replay', step.workspace_id, step.replay_id);
  const position = catalog.position;
  if (asked === undefined) throw new InvalidInput('no such replay');
  const result = await stepAfter(dependencies, asked, step);
  const at = iso(clock());
  if (result === 'wait')
    return [{ ...stepRecord({ ...step, at }, asked, position), topic: TOPIC.replaysWaiting }];
  const { next, events } = result;
  metrics.count('tributary_events_replayed_total', {}, events.length);
  return [...events, stepRecord({ ...next, number: step.number + 1, at }, asked, position)];
}

/**
 * The result of a step; the replay ends where it was cancelled or its rule was deleted. Of a workspace that is over its
 * budget of the hour it waits for the next one; over another budget it ends, as its steps take space too.
 */
async function stepAfter(
  dependencies: SteppingDependencies,
  asked: Replay,
  step: ReplayStep,
): Promise<StepResult | 'wait'> {
  const { catalog } = dependencies;
  if (asked.status === 'cancelled') return { next: { ...step, status: 'cancelled' }, events: [] };
  if (asked.rule_id !== null && catalog.state.entity('rule', asked.workspace_id, asked.rule_id) === undefined)
    return { next: { ...step, status: 'failed', reason: 'the rule was deleted' }, events: [] };
  const over = dependencies.budgets?.verdictOf(asked.workspace_id);
  if (over?.budget === 'bytes_per_hour' || over?.budget === 'organization_bytes_per_hour') return 'wait';
  if (over !== undefined)
    return {
      next: { ...step, status: 'failed', reason: `the workspace is over its budget ${over.budget}` },
      events: [],
    };
  return nextStep(dependencies, asked, step);
}

function stepRecord(step: ReplayStep, { id }: Replay, catalogPosition: number): OutputRecord {
  const headers = {
    [HEADER.catalogPosition]: String(catalogPosition),
    [HEADER.workspaceId]: step.workspace_id,
    [HEADER.replay]: id,
  };
  return { topic: TOPIC.replays, key: id, value: JSON.stringify(step), headers };
}

function stepIn(entry: LogEntry): ReplayStep {
  const step = parseObject(entry.value) as Partial<ReplayStep>;
  if (typeof step.replay_id !== 'string' || !Array.isArray(step.cursors))
    throw new InvalidInput('no step of a replay');
  return step as ReplayStep;
}

/** Bytes of events that a step may emit: they are committed in one transaction. */
const STEP_BYTES = 1024 * 1024;
/** Bytes that the steps of all replays of a process may read in a tick, also events of other workspaces; and of one read. */
const READ_BUDGET_BYTES = 4 * 1024 * 1024;
const READ_BYTES = 256 * 1024;

/** Duration of one piece of work, ms. */
const PIECE_MS = 2;

/** The read budget that the replays of a process share. */
export function createReadBudgets(elapsed: () => number): ReadBudgets {
  return new ReadBudgets((READ_BUDGET_BYTES * 1_000) / REPLAY_TICK_MS, READ_BUDGET_BYTES, elapsed);
}

/** The result of a step: the next one, and the records of events that it emits. */
interface StepResult {
  readonly next: Omit<ReplayStep, 'number' | 'at'>;
  readonly events: readonly OutputRecord[];
}

type LogReads = Pick<StepDependencies, 'log'>;

/** The first step: where the time range of the replay begins and ends in each partition. */
async function firstStep(
  dependencies: Pick<StepDependencies, 'log' | 'clock' | 'dedupeWindowMs'>,
  replay: Replay,
  catalogPosition: number,
): Promise<ReplayStep> {
  const { id, workspace_id, created_at } = replay;
  const now = dependencies.clock();
  const ofRejected = replay.outcome === 'rejected';
  const isLong = ofRejected && mayBeForgotten(replay, now, dependencies.dedupeWindowMs);
  return {
    replay_id: id,
    workspace_id,
    number: 0,
    status: 'running',
    cursors: await cursorsOf(dependencies, replay),
    looked_at: 0,
    events: 0,
    ...(ofRejected ? { still_rejected: 0, catalog_position: catalogPosition } : {}),
    ...(isLong ? { phase: 'mark' as const } : {}),
    created_at,
    at: iso(now),
  };
}

async function cursorsOf({ log }: LogReads, replay: Replay): Promise<readonly ReplayCursor[]> {
  const topic = topicOf(replay);
  return cursorsIn({ log }, topic, Date.parse(replay.since), (partition) =>
    log.offsetAt(topic, partition, Date.parse(replay.until)),
  );
}

async function cursorsIn(
  { log }: LogReads,
  topic: string,
  since: number,
  endOf: (partition: number) => Promise<number>,
): Promise<readonly ReplayCursor[]> {
  const partitions = log.topics.get(topic)?.partitions ?? 0;
  return Promise.all(
    Array.from({ length: partitions }, async (_, partition): Promise<ReplayCursor> => {
      const [first, start, end] = await Promise.all([
        log.first(topic, partition),
        log.offsetAt(topic, partition, since),
        endOf(partition),
      ]);
      const from = Math.max(first, start);
      return { partition, from, next: from, end: Math.max(from, end) };
    }),
  );
}

/** The topic that a step reads. */
function topicOf({ outcome }: Replay, { phase }: Pick<ReplayStep, 'phase'> = {}): string {
  return outcome === 'rejected' && phase !== 'compare' ? TOPIC.rejected : TOPIC.accepted;
}

/** The remaining budget of a step. */
interface Allowance {
  events: number;
  bytes: number;
  readBytes: number;
}

/** Events that so many steps may emit. Some steps of a slow replay emit none, so that it is never ahead of its rate. */
function allowedUntil({ events_per_second }: Replay, steps: number): number {
  return Math.floor((steps * events_per_second * REPLAY_TICK_MS) / 1_000);
}

/** Continues reading, partition by partition, within the rate and the limits of a step. */
export async function nextStep(
  dependencies: StepDependencies,
  replay: Replay,
  step: ReplayStep,
): Promise<StepResult> {
  const mayRead = dependencies.reads.of(replay.id);
  const emits = step.phase === undefined || step.phase === 'evaluate';
  const allowance: Allowance = {
    events: emits
      ? allowedUntil(replay, step.number + 1) - allowedUntil(replay, step.number)
      : Number.POSITIVE_INFINITY,
    bytes: STEP_BYTES,
    readBytes: mayRead,
  };
  const dedupeClaims: DedupeClaim[] = [];
  const reading: Reading = {
    topic: topicOf(replay, step),
    select: selectorOf(dependencies, replay, step, dedupeClaims),
    allowance,
    events: [],
    stillRejected: 0,
  };
  const cursors: ReplayCursor[] = [];
  let readEntries = 0;
  for (const cursor of step.cursors) {
    const read = await readPartition(dependencies, replay, cursor, reading);
    cursors.push(read.cursor);
    readEntries += read.readEntries;
  }
  dependencies.reads.take(replay.id, mayRead - allowance.readBytes);
  if (dedupeClaims.length > 0) await dependencies.reevaluations.claim(dedupeClaims);
  const finished = cursors.every(({ next, end }) => next >= end);
  const { still_rejected } = step;
  return {
    next: {
      ...step,
      ...(finished
        ? await phaseAfter(dependencies, replay, { ...step, cursors })
        : { status: 'running', cursors }),
      looked_at: step.looked_at + (emits ? readEntries : 0),
      events: step.events + reading.events.length,
      ...(still_rejected === undefined ? {} : { still_rejected: still_rejected + reading.stillRejected }),
    },
    events: reading.events,
  };
}

/** The state of a replay that has completed a phase. */
async function phaseAfter(
  { log }: LogReads,
  replay: Replay,
  { phase, cursors }: Pick<ReplayStep, 'phase' | 'cursors'>,
): Promise<Pick<ReplayStep, 'status' | 'cursors' | 'phase'>> {
  if (phase === 'mark') {
    const end = (partition: number) => log.end(TOPIC.accepted, partition);
    const accepted = await cursorsIn({ log }, TOPIC.accepted, comparedSince(replay), end);
    return { status: 'running', phase: 'compare', cursors: accepted };
  }
  if (phase === 'compare')
    return { status: 'running', phase: 'evaluate', cursors: await cursorsOf({ log }, replay) };
  return { status: 'finished', cursors };
}

function selectorOf(
  dependencies: StepDependencies,
  replay: Replay,
  step: ReplayStep,
  dedupeClaims: DedupeClaim[],
): (entry: LogEntry) => Selection {
  if (step.phase === 'mark') return mark(replay, dedupeClaims);
  if (step.phase === 'compare') return compare(replay, dedupeClaims);
  if (replay.outcome === 'rejected') return reevaluate(dependencies, replay, step);
  const { catalog, clock, retentionMs } = dependencies;
  const { isUpgraded } = catalog.state;
  const mayRefer = ({ timestamp }: LogEntry) => isUpgraded && mayReferTo(timestamp, clock(), retentionMs);
  return (entry) => toRoute(catalog, replay, entry, mayRefer);
}

/** The progress of a step. */
interface Reading {
  readonly topic: string;
  readonly select: (entry: LogEntry) => Selection;
  readonly allowance: Allowance;
  readonly events: OutputRecord[];
  stillRejected: number;
}

async function readPartition(
  dependencies: StepDependencies,
  replay: Replay,
  cursor: ReplayCursor,
  reading: Reading,
): Promise<{ readonly cursor: ReplayCursor; readonly readEntries: number }> {
  const { topic, allowance } = reading;
  let { next } = cursor;
  let readEntries = 0;
  while (next < cursor.end && !isUsedUp(allowance)) {
    const read = await dependencies.log.read(topic, cursor.partition, next, { maxBytes: READ_BYTES });
    /** Handles the entries from `at` on that fit into one piece of work; returns where to continue. */
    const handleFrom = (at: number): number => {
      const thread = new EventLoopYielder(dependencies.elapsed, PIECE_MS);
      for (const [index, entry] of read.entries.slice(at).entries()) {
        if (isUsedUp(allowance) || entry.position.offset >= cursor.end) return read.entries.length;
        if (thread.isYieldDue) return at + index;
        next = entry.position.offset + 1;
        readEntries += 1;
        allowance.readBytes -= recordChars(entry);
        note(reading, reading.select(entry));
      }
      return read.entries.length;
    };
    for (let at = 0; at < read.entries.length; ) {
      const from = at;
      at = await dependencies.scheduler.run(replay.workspace_id, () => handleFrom(from));
    }
    if (isUsedUp(allowance)) break;
    if (read.next > next) next = Math.min(read.next, cursor.end);
    else if (read.entries.length === 0) {
      const kept = await firstKept(dependencies, topic, cursor);
      if (kept <= next) break; // the record exists and cannot be read yet: it is behind an open transaction
      next = kept;
    }
  }
  return { cursor: { ...cursor, next }, readEntries };
}

function note(reading: Reading, selection: Selection): void {
  if (selection === undefined) return;
  if (selection === 'still rejected') {
    reading.stillRejected += 1;
    return;
  }
  const { allowance, events } = reading;
  allowance.events -= 1;
  allowance.bytes -= recordChars(selection);
  events.push(selection);
}

/** The first retained offset. Only dropped records are skipped: a record that a read does not return may come later. */
async function firstKept(
  { log }: LogReads,
  topic: string,
  { partition, end }: ReplayCursor,
): Promise<number> {
  return Math.min(await log.first(topic, partition), end);
}

function isUsedUp({ events, bytes, readBytes }: Allowance): boolean {
  return events <= 0 || bytes <= 0 || readBytes <= 0;
}

/** A replay without a step for so long, ms, has ended. */
const FORGOTTEN_AFTER_MS = 5_000;

interface Share {
  bytes: number;
  at: number;
}

/**
 * Limits how fast the replays of a process read the log, which serves others as well. The budget per second is divided
 * evenly. Unused shares accumulate up to `burst`, and an overdrawn one delays the next step.
 */
export class ReadBudgets {
  readonly #bytesPerMs: number;
  readonly #burst: number;
  readonly #elapsed: () => number;
  readonly #shares = new Map<string, Share>();

  /** `burst`: bytes that all replays together may read at once. `elapsed`: ms of a monotonic clock. */
  constructor(bytesPerSecond: number, burst: number, elapsed: () => number) {
    this.#bytesPerMs = bytesPerSecond / 1_000;
    this.#burst = burst;
    this.#elapsed = elapsed;
  }

  /** The bytes that the next step of a replay may read; none where 0 or negative. */
  of(replayId: string): number {
    const now = this.#elapsed();
    for (const [id, { at }] of this.#shares) if (now - at > FORGOTTEN_AFTER_MS) this.#shares.delete(id);
    const known = this.#shares.get(replayId);
    const sharers = this.#shares.size + (known === undefined ? 1 : 0);
    const most = this.#burst / sharers;
    const bytes =
      known === undefined
        ? most
        : Math.min(most, known.bytes + ((now - known.at) * this.#bytesPerMs) / sharers);
    this.#shares.set(replayId, { bytes, at: now });
    return bytes;
  }

  /** Deducts the bytes that a step has read. */
  take(replayId: string, bytes: number): void {
    const share = this.#shares.get(replayId);
    if (share !== undefined) share.bytes -= bytes;
  }
}
