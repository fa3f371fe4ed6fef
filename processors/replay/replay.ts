import {
  asyncHandler,
  type Catalog,
  type Clock,
  type EventLog,
  type FlowStage,
  HEADER,
  InvalidInput,
  iso,
  type LogEntry,
  type Logger,
  type Metrics,
  type OutputRecord,
  parseObject,
  REPLAY_START_DEADLINE_MS,
  type Replay,
  type ReplayStep,
  type StorageBudgets,
  TOPIC,
} from '@tributary/core';
import { awaitCatalog, awaitFact, factIn } from '../catalog-position.ts';
import { timeOf } from '../event-record.ts';
import type { SlowQueueScheduler } from '../fairness/slow-queue-scheduler.ts';
import type { ReevaluationDependencies } from './selection.ts';
import { createReadBudgets, firstStep, nextStep, type ReadBudgets, type StepResult } from './step.ts';

export interface ReplayDependencies extends ReevaluationDependencies {
  readonly log: Pick<EventLog, 'read' | 'end' | 'first' | 'offsetAt' | 'topics'>;
  readonly catalog: Catalog;
  readonly clock: Clock;
  /** Ms of a monotonic clock. */
  readonly elapsed: () => number;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly catalogWaitMs: number;
  /** Absent: no workspace has a budget. */
  readonly budgets?: Pick<StorageBudgets, 'verdictOf'>;
  /** Retention of the topics, ms. */
  readonly retentionMs: number;
}

interface SteppingDependencies extends ReplayDependencies {
  readonly reads: ReadBudgets;
  readonly scheduler: SlowQueueScheduler;
}

/**
 * The stage `replay`. A fact of the catalog begins a replay; each record of `replays` or `replays.waiting` is a step: it reads
 * the next accepted events of the replay's time range, sends those that match its rules to the slow queue of route, and emits
 * the next step, which is due a tick later. A replay of rejected events sends those that pass their contract now to the slow
 * queue of validate. Output records are committed with the step, so no crash repeats an event.
 */
export function replay(dependencies: ReplayDependencies, scheduler: SlowQueueScheduler): FlowStage['handle'] {
  const reads = createReadBudgets(dependencies.elapsed);
  return asyncHandler((entry) =>
    entry.position.topic === TOPIC.catalog
      ? begin(dependencies, entry)
      : continueReplay({ ...dependencies, reads, scheduler }, entry),
  );
}

/** The first step; none for a fact that is about something else, was refused, or is too old. */
async function begin(dependencies: ReplayDependencies, entry: LogEntry): Promise<readonly OutputRecord[]> {
  const fact = factIn(entry);
  if (fact?.type !== 'replay.created') return [];
  const { catalog, clock, catalogWaitMs } = dependencies;
  if (clock() - timeOf(fact.at) > REPLAY_START_DEADLINE_MS) return [];
  const position = await awaitFact(catalog, entry, catalogWaitMs);
  const { workspace_id, id } = fact.data;
  const asked = catalog.state.entity('replay', workspace_id, id);
  if (asked === undefined || asked.created_at !== fact.at) return [];
  return [stepRecord(await firstStep(dependencies, asked, position), asked, position)];
}

async function continueReplay(
  dependencies: SteppingDependencies,
  entry: LogEntry,
): Promise<readonly OutputRecord[]> {
  const { catalog, catalogWaitMs, clock, metrics } = dependencies;
  await awaitCatalog(catalog, [entry], catalogWaitMs);
  const step = stepIn(entry);
  if (step.status !== 'running') return [];
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
