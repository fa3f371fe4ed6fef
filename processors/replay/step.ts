import {
  type Catalog,
  type Claimant,
  type Clock,
  type Emission,
  type EventLog,
  HEADER,
  HeldThread,
  iso,
  type LogEntry,
  REPLAY_TICK_MS,
  type Replay,
  type ReplayCursor,
  type ReplayStep,
  TOPIC,
} from '@tributary/core';
import type { SlowQueueScheduler } from '../fairness/slow-queue-scheduler.ts';
import {
  compare,
  comparedSince,
  mark,
  mayBeForgotten,
  type ReevaluationDependencies,
  reevaluate,
  type Selection,
  sentOn,
} from './selection.ts';

/** Bytes of events that a step may send on: they are committed in one transaction. */
const STEP_BYTES = 1024 * 1024;
/** Bytes that the steps of all replays of a process may read in a tick, those of other workspaces too; and of one read. */
const READ_BUDGET_BYTES = 4 * 1024 * 1024;
const READ_BYTES = 256 * 1024;

/** How long a replay looks at events before others have their turn, ms. */
const TURN_MS = 2;

interface StepDependencies extends ReevaluationDependencies {
  readonly log: Pick<EventLog, 'read' | 'end' | 'first' | 'offsetAt' | 'topics'>;
  readonly catalog: Pick<Catalog, 'state' | 'position'>;
  readonly clock: Clock;
  /** Ms that never go back. */
  readonly elapsed: Clock;
  readonly reads: ReadBudgets;
  /** The filters of the rules are evaluated in these. */
  readonly scheduler: SlowQueueScheduler;
}

/** The budget that the replays of a process share. */
export function createReadBudgets(elapsed: () => number): ReadBudgets {
  return new ReadBudgets((READ_BUDGET_BYTES * 1_000) / REPLAY_TICK_MS, READ_BUDGET_BYTES, elapsed);
}

/** What a step makes: the one after it, and the events it sends on. */
export interface StepResult {
  readonly next: Omit<ReplayStep, 'number' | 'at'>;
  readonly events: readonly Emission[];
}

type LogReads = Pick<StepDependencies, 'log'>;

/** Where the replay begins and ends in each partition: events that the log took between its two times. */
export async function firstStep(
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

/** What may still be sent on and read in a step. */
interface Allowance {
  events: number;
  bytes: number;
  lookedAtBytes: number;
}

/** Events of so many steps at most. A slow replay has steps that send nothing, so that none is ahead of its pace. */
function allowedUntil({ events_per_second }: Replay, steps: number): number {
  return Math.floor((steps * events_per_second * REPLAY_TICK_MS) / 1_000);
}

/** Reads on, partition after partition, as far as the pace and the bounds of a step allow. */
export async function nextStep(
  dependencies: StepDependencies,
  replay: Replay,
  step: ReplayStep,
): Promise<StepResult> {
  const mayRead = dependencies.reads.of(replay.id);
  const sendsOn = step.phase === undefined || step.phase === 'evaluate';
  const allowance: Allowance = {
    events: sendsOn
      ? allowedUntil(replay, step.number + 1) - allowedUntil(replay, step.number)
      : Number.POSITIVE_INFINITY,
    bytes: STEP_BYTES,
    lookedAtBytes: mayRead,
  };
  const claimants: Claimant[] = [];
  const reading: Reading = {
    topic: topicOf(replay, step),
    look: lookOf(dependencies, replay, step, claimants),
    allowance,
    events: [],
    stillRejected: 0,
  };
  const cursors: ReplayCursor[] = [];
  let lookedAt = 0;
  for (const cursor of step.cursors) {
    const read = await readOn(dependencies, replay, cursor, reading);
    cursors.push(read.cursor);
    lookedAt += read.lookedAt;
  }
  dependencies.reads.take(replay.id, mayRead - allowance.lookedAtBytes);
  if (claimants.length > 0) await dependencies.reevaluations.claim(claimants);
  const finished = cursors.every(({ next, end }) => next >= end);
  const { still_rejected } = step;
  return {
    next: {
      ...step,
      ...(finished
        ? await phaseAfter(dependencies, replay, { ...step, cursors })
        : { status: 'running', cursors }),
      looked_at: step.looked_at + (sendsOn ? lookedAt : 0),
      events: step.events + reading.events.length,
      ...(still_rejected === undefined ? {} : { still_rejected: still_rejected + reading.stillRejected }),
    },
    events: reading.events,
  };
}

/** Where a replay goes on that has read all of a phase. */
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

function lookOf(
  dependencies: StepDependencies,
  replay: Replay,
  step: ReplayStep,
  claimants: Claimant[],
): (entry: LogEntry) => Selection {
  if (step.phase === 'mark') return mark(replay, claimants);
  if (step.phase === 'compare') return compare(replay, claimants);
  if (replay.outcome === 'rejected') return reevaluate(dependencies, replay, step);
  return (entry) => sentOn(dependencies.catalog, replay, entry);
}

/** What a step reads, and what it has made of it so far. */
interface Reading {
  readonly topic: string;
  readonly look: (entry: LogEntry) => Selection;
  readonly allowance: Allowance;
  readonly events: Emission[];
  stillRejected: number;
}

async function readOn(
  dependencies: StepDependencies,
  replay: Replay,
  cursor: ReplayCursor,
  reading: Reading,
): Promise<{ readonly cursor: ReplayCursor; readonly lookedAt: number }> {
  const { topic, allowance } = reading;
  let { next } = cursor;
  let lookedAt = 0;
  while (next < cursor.end && !isUsedUp(allowance)) {
    const read = await dependencies.log.read(topic, cursor.partition, next, { maxBytes: READ_BYTES });
    /** Looks at entries from `at` on, as many as fit into a turn; where to go on. */
    const lookAt = (at: number): number => {
      const thread = new HeldThread(dependencies.elapsed, TURN_MS);
      for (const [index, entry] of read.entries.slice(at).entries()) {
        if (isUsedUp(allowance) || entry.position.offset >= cursor.end) return read.entries.length;
        if (thread.isDueToRest) return at + index;
        next = entry.position.offset + 1;
        lookedAt += 1;
        allowance.lookedAtBytes -= entry.value.length;
        note(reading, reading.look(entry));
      }
      return read.entries.length;
    };
    for (let at = 0; at < read.entries.length; ) {
      const from = at;
      at = await dependencies.scheduler.run(replay.workspace_id, () => lookAt(from));
    }
    if (isUsedUp(allowance)) break;
    if (read.next > next) next = Math.min(read.next, cursor.end);
    else if (read.entries.length === 0) {
      const kept = await firstKept(dependencies, topic, cursor);
      if (kept <= next) break; // it is there, and cannot be read yet: an open transaction lies before it
      next = kept;
    }
  }
  return { cursor: { ...cursor, next }, lookedAt };
}

function note(reading: Reading, looked: Selection): void {
  if (looked === undefined) return;
  if (looked === 'still rejected') {
    reading.stillRejected += 1;
    return;
  }
  const { allowance, events } = reading;
  allowance.events -= 1;
  allowance.bytes -= looked.value.length + (looked.headers[HEADER.rules]?.length ?? 0);
  events.push(looked);
}

/** What is no longer kept is passed, and no more than that: what a read does not give may come with the next one. */
async function firstKept(
  { log }: LogReads,
  topic: string,
  { partition, end }: ReplayCursor,
): Promise<number> {
  return Math.min(await log.first(topic, partition), end);
}

function isUsedUp({ events, bytes, lookedAtBytes }: Allowance): boolean {
  return events <= 0 || bytes <= 0 || lookedAtBytes <= 0;
}

/** One that made no step for so long, ms, has ended. */
const FORGOTTEN_AFTER_MS = 5_000;

interface Share {
  bytes: number;
  at: number;
}

/**
 * What replays may read of the log, which answers others too: so much a second by all that run in a process, shared out
 * evenly. A share that is not used is kept for the next step up to `burst`, and one that is overdrawn waits.
 */
export class ReadBudgets {
  readonly #bytesPerMs: number;
  readonly #burst: number;
  readonly #elapsed: () => number;
  readonly #shares = new Map<string, Share>();

  /** `burst`: bytes that all together may read at once. `elapsed`: ms that never go back. */
  constructor(bytesPerSecond: number, burst: number, elapsed: () => number) {
    this.#bytesPerMs = bytesPerSecond / 1_000;
    this.#burst = burst;
    this.#elapsed = elapsed;
  }

  /** The bytes that the next step of a replay may read; none where it is 0 or less. */
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

  /** Takes what a step has read off its share. */
  take(replayId: string, bytes: number): void {
    const share = this.#shares.get(replayId);
    if (share !== undefined) share.bytes -= bytes;
  }
}
