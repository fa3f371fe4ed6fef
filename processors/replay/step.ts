import {
  type CanonicalEvent,
  type Catalog,
  type Clock,
  type DedupeClaim,
  destinationMismatch,
  type EventLog,
  EventLoopYielder,
  HEADER,
  iso,
  isUndecided,
  type LogEntry,
  MATCH,
  matchRules,
  type OutputRecord,
  REPLAY_TICK_MS,
  type Replay,
  type ReplayCursor,
  type ReplayStep,
  type Rule,
  TOPIC,
} from '@tributary/core';
import { eventOf } from '../entry.ts';
import type { SlowTurns } from '../fairness/slow-turns.ts';
import { takesEvent, takesHeaders } from './narrowed.ts';
import { ReadShares } from './read-shares.ts';
import {
  compare,
  comparedSince,
  type Looked,
  mark,
  mayBeForgotten,
  type ReevaluationDependencies,
  reevaluate,
} from './reevaluation.ts';

/** Bytes of events that a step may send on: they are committed in one transaction. */
const STEP_BYTES = 1024 * 1024;
/** Bytes that the steps of all replays of a process may read in a tick, those of other workspaces too; and of one read. */
const LOOKED_AT_BYTES = 4 * 1024 * 1024;
const READ_BYTES = 256 * 1024;

/** How long a replay looks at events before others have their turn, ms. */
const TURN_MS = 2;

interface StepDependencies extends ReevaluationDependencies {
  readonly log: Pick<EventLog, 'read' | 'end' | 'first' | 'offsetAt' | 'topics'>;
  readonly catalog: Pick<Catalog, 'state' | 'position'>;
  readonly clock: Clock;
  /** Ms that never go back. */
  readonly elapsed: Clock;
  readonly reads: ReadShares;
  /** The filters of the rules are evaluated in these. */
  readonly turns: SlowTurns;
}

/** The budget that the replays of a process share. */
export function sharedReads(elapsed: () => number): ReadShares {
  return new ReadShares((LOOKED_AT_BYTES * 1_000) / REPLAY_TICK_MS, LOOKED_AT_BYTES, elapsed);
}

/** What a step makes: the one after it, and the events it sends on. */
export interface Stepped {
  readonly next: Omit<ReplayStep, 'number' | 'at'>;
  readonly events: readonly OutputRecord[];
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
function mostOf({ events_per_second }: Replay, steps: number): number {
  return Math.floor((steps * events_per_second * REPLAY_TICK_MS) / 1_000);
}

/** Reads on, partition after partition, as far as the pace and the bounds of a step allow. */
export async function nextStep(
  dependencies: StepDependencies,
  replay: Replay,
  step: ReplayStep,
): Promise<Stepped> {
  const mayRead = dependencies.reads.of(replay.id);
  const sendsOn = step.phase === undefined || step.phase === 'evaluate';
  const allowance: Allowance = {
    events: sendsOn
      ? mostOf(replay, step.number + 1) - mostOf(replay, step.number)
      : Number.POSITIVE_INFINITY,
    bytes: STEP_BYTES,
    lookedAtBytes: mayRead,
  };
  const claimants: DedupeClaim[] = [];
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
  claimants: DedupeClaim[],
): (entry: LogEntry) => Looked {
  if (step.phase === 'mark') return mark(replay, claimants);
  if (step.phase === 'compare') return compare(replay, claimants);
  if (replay.outcome === 'rejected') return reevaluate(dependencies, replay, step);
  return (entry) => sentOn(dependencies.catalog, replay, entry);
}

/** What a step reads, and what it has made of it so far. */
interface Reading {
  readonly topic: string;
  readonly look: (entry: LogEntry) => Looked;
  readonly allowance: Allowance;
  readonly events: OutputRecord[];
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
      const thread = new EventLoopYielder(dependencies.elapsed, TURN_MS);
      for (const [index, entry] of read.entries.slice(at).entries()) {
        if (isUsedUp(allowance) || entry.position.offset >= cursor.end) return read.entries.length;
        if (thread.isYieldDue) return at + index;
        next = entry.position.offset + 1;
        lookedAt += 1;
        allowance.lookedAtBytes -= entry.value.length;
        note(reading, reading.look(entry));
      }
      return read.entries.length;
    };
    for (let at = 0; at < read.entries.length; ) {
      const from = at;
      at = await dependencies.turns.run(replay.workspace_id, () => lookAt(from));
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

function note(reading: Reading, looked: Looked): void {
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

/** The event for the slow lane of route, with the rules that take it; undefined where none does. */
function sentOn(
  { state, position }: Pick<Catalog, 'state' | 'position'>,
  replay: Replay,
  entry: LogEntry,
): OutputRecord | undefined {
  if (!takesHeaders(replay, entry)) return undefined;
  const event = eventOf(entry);
  if (!takesEvent(replay, event)) return undefined;
  const open = rulesOf(state, replay).filter((rule) => isOpen(state, rule, event));
  const matches = matchRules(open, event);
  const rules = matches.filter(({ mismatch }) => mismatch === undefined || isUndecided(mismatch));
  if (rules.length === 0) return undefined;
  const headers = {
    ...entry.headers,
    [HEADER.catalogPosition]: String(Math.max(position, Number(entry.headers[HEADER.catalogPosition]) || 0)),
    [HEADER.rules]: rules.map(({ rule }) => rule.id).join(','),
    // The dead delivery of a filter that cannot say whether its rule takes the event is made where rules are applied.
    ...(rules.some(({ mismatch }) => mismatch !== undefined) ? { [HEADER.match]: MATCH.named } : {}),
    [HEADER.replay]: replay.id,
    ...(replay.new_ids === false ? { [HEADER.replayIds]: 'first' } : {}),
  };
  return { topic: TOPIC.eventsSlow, key: entry.key, value: entry.value, headers };
}

function rulesOf(state: Catalog['state'], { rule_id, workspace_id }: Replay): readonly Rule[] {
  if (rule_id === null) return state.enabledRules(workspace_id);
  const rule = state.entity('rule', workspace_id, rule_id);
  return rule === undefined ? [] : [{ ...rule, enabled: true }];
}

function isOpen(state: Catalog['state'], rule: Rule, event: CanonicalEvent): boolean {
  const destination = state.entity('destination', rule.workspace_id, rule.destination_id);
  return destinationMismatch(destination, event.environment) === undefined;
}
