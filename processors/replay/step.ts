import {
  type CanonicalEvent,
  type Catalog,
  type Clock,
  closedTo,
  type Emission,
  type EventLog,
  HEADER,
  HeldThread,
  iso,
  isUndecided,
  type LogEntry,
  MATCH,
  matchRules,
  REPLAY_TICK_MS,
  type Replay,
  type ReplayCursor,
  type ReplayStep,
  type Rule,
  TOPIC,
} from '@tributary/core';
import { eventOf } from '../entry.ts';
import type { SlowTurns } from '../fairness/slow-turns.ts';
import { ReadShares } from './read-shares.ts';

/** Bytes of events that a step may send on: they are committed in one transaction. */
const STEP_BYTES = 1024 * 1024;
/** Bytes that the steps of all replays of a process may read in a tick, those of other workspaces too; and of one read. */
const LOOKED_AT_BYTES = 4 * 1024 * 1024;
const READ_BYTES = 256 * 1024;

/** How long a replay looks at events before others have their turn, ms. */
const TURN_MS = 2;

interface StepDependencies {
  readonly log: Pick<EventLog, 'read' | 'first' | 'offsetAt' | 'topics'>;
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
  readonly events: readonly Emission[];
}

/** Where the replay begins and ends in each partition: accepted events that the log took between its two times. */
export async function firstStep(
  { log, clock }: Pick<StepDependencies, 'log' | 'clock'>,
  { id, workspace_id, since, until, created_at }: Replay,
): Promise<ReplayStep> {
  const partitions = log.topics.get(TOPIC.accepted)?.partitions ?? 0;
  const cursors = await Promise.all(
    Array.from({ length: partitions }, async (_, partition): Promise<ReplayCursor> => {
      const [first, start, end] = await Promise.all([
        log.first(TOPIC.accepted, partition),
        log.offsetAt(TOPIC.accepted, partition, Date.parse(since)),
        log.offsetAt(TOPIC.accepted, partition, Date.parse(until)),
      ]);
      const from = Math.max(first, start);
      return { partition, from, next: from, end: Math.max(from, end) };
    }),
  );
  return {
    replay_id: id,
    workspace_id,
    number: 0,
    status: 'running',
    cursors,
    looked_at: 0,
    events: 0,
    created_at,
    at: iso(clock()),
  };
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
  const allowance: Allowance = {
    events: mostOf(replay, step.number + 1) - mostOf(replay, step.number),
    bytes: STEP_BYTES,
    lookedAtBytes: mayRead,
  };
  const events: Emission[] = [];
  const cursors: ReplayCursor[] = [];
  let lookedAt = 0;
  for (const cursor of step.cursors) {
    const read = await readOn(dependencies, replay, cursor, allowance, events);
    cursors.push(read.cursor);
    lookedAt += read.lookedAt;
  }
  dependencies.reads.take(replay.id, mayRead - allowance.lookedAtBytes);
  const finished = cursors.every(({ next, end }) => next >= end);
  return {
    next: {
      ...step,
      status: finished ? 'finished' : 'running',
      cursors,
      looked_at: step.looked_at + lookedAt,
      events: step.events + events.length,
    },
    events,
  };
}

async function readOn(
  dependencies: StepDependencies,
  replay: Replay,
  cursor: ReplayCursor,
  allowance: Allowance,
  events: Emission[],
): Promise<{ readonly cursor: ReplayCursor; readonly lookedAt: number }> {
  let { next } = cursor;
  let lookedAt = 0;
  while (next < cursor.end && !isUsedUp(allowance)) {
    const read = await dependencies.log.read(TOPIC.accepted, cursor.partition, next, {
      maxBytes: READ_BYTES,
    });
    /** Looks at entries from `at` on, as many as fit into a turn; where to go on. */
    const lookAt = (at: number): number => {
      const thread = new HeldThread(dependencies.elapsed, TURN_MS);
      for (const [index, entry] of read.entries.slice(at).entries()) {
        if (isUsedUp(allowance) || entry.position.offset >= cursor.end) return read.entries.length;
        if (thread.isDueToRest) return at + index;
        next = entry.position.offset + 1;
        lookedAt += 1;
        allowance.lookedAtBytes -= entry.value.length;
        const emission = sentOn(dependencies.catalog, replay, entry);
        if (emission === undefined) continue;
        allowance.events -= 1;
        allowance.bytes -= emission.value.length + (emission.headers[HEADER.rules]?.length ?? 0);
        events.push(emission);
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
      const kept = await firstKept(dependencies, cursor);
      if (kept <= next) break; // it is there, and cannot be read yet: an open transaction lies before it
      next = kept;
    }
  }
  return { cursor: { ...cursor, next }, lookedAt };
}

/** What is no longer kept is passed, and no more than that: what a read does not give may come with the next one. */
async function firstKept({ log }: StepDependencies, { partition, end }: ReplayCursor): Promise<number> {
  return Math.min(await log.first(TOPIC.accepted, partition), end);
}

function isUsedUp({ events, bytes, lookedAtBytes }: Allowance): boolean {
  return events <= 0 || bytes <= 0 || lookedAtBytes <= 0;
}

/** The event for the slow lane of route, with the rules that take it; undefined where none does. */
function sentOn(
  { state, position }: Pick<Catalog, 'state' | 'position'>,
  replay: Replay,
  entry: LogEntry,
): Emission | undefined {
  if (entry.headers[HEADER.workspaceId] !== replay.workspace_id) return undefined;
  const event = eventOf(entry);
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
  return closedTo(destination, event.environment) === undefined;
}
