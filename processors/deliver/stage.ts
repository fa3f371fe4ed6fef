import {
  asyncHandler,
  type Catalog,
  cancelledByRule,
  type Destination,
  type FlowContext,
  type FlowStage,
  HEADER,
  hopStep,
  type LogEntry,
  needsEventToMatch,
  type OutputRecord,
  type RetrySchedule,
  retryDelays,
  retryTopic,
  type Source,
  type StageContext,
  type StorageBudgets,
} from '@tributary/core';
import { awaitCatalog, isAhead } from '../catalog-position.ts';
import type { PartitionWindows } from '../fairness/partition-windows.ts';
import { type DeliveryReads, type DeliveryTask, timeIn, withDelivery } from './delivery-task.ts';
import { type Failed, QueueItem, SLOW_REQUEST_MS } from './destination-queue.ts';
import type { DestinationRegistry, RegistryDependencies } from './destination-registry.ts';
import {
  dead,
  disabledBecause,
  isHolderOld,
  longestAskedMs,
  notKeptLonger,
  type Outcome,
  outcomeNote,
  outputRecords,
  postponedOverBudget,
  postponedWhilePaused,
  renewedRecords,
  withoutItsEvent,
} from './outcome.ts';

export interface DeliverDependencies extends RegistryDependencies {
  readonly catalog: Catalog;
  readonly registry: DestinationRegistry;
  /** Follows records that refer to others. */
  readonly reads: DeliveryReads;
  /** Retention of the topics, ms. */
  readonly retentionMs: number;
  /** Absent: no workspace has a budget of bytes. */
  readonly budgets?: Pick<StorageBudgets, 'verdictOf'> | undefined;
}

/**
 * The stages `deliver` and `deliver.retry`. Deliveries of a slow destination go to the slow queue, also one whose
 * request takes long, while the request continues. A delivery that would wait for longer than a retry topic takes goes to one.
 */
export function deliver(
  dependencies: DeliverDependencies,
  windows: PartitionWindows,
): Pick<FlowStage, 'handle' | 'canAccept'> {
  const { catalog, registry, reads, clock } = dependencies;

  // Waits only where there is something to wait for: most deliveries are queued in the turn in which they are read.
  const take = async (entry: LogEntry, context: FlowContext): Promise<void> => {
    const early = recordThatWaits(dependencies, entry);
    if (early !== undefined) return context.done([early]);
    const read = reads.task(entry, context.bytes, clock());
    const task = 'then' in read ? await read : read;
    if ('topic' in task) return context.done([task]);
    if (isAhead(task, catalog)) await awaitCatalog(catalog, [task]);
    const resolved = resolve(dependencies, task);
    const destination = 'then' in resolved ? await resolved : resolved;
    if ('delivery' in destination) return finish(dependencies, task, destination, context);
    const release = windows.tryEnter(entry, destination.id, task.bytes);
    const waitMs = release === undefined ? 0 : SLOW_REQUEST_MS;
    const item = new QueueItem(task, destination, context, 'quick', waitMs, (outcome) => {
      release?.();
      finish(dependencies, task, outcome, context);
    });
    registry.queueOf(destination.id).enqueue(item);
  };

  return {
    handle: (entry, context) => void take(entry, context).catch((error: unknown) => context.failed(error)),
    canAccept: (topic, partition) => windows.canAccept(topic, partition),
  };
}

/** Finishes the entry of a task with the records that its outcome becomes. */
function finish(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
  outcome: Outcome | Failed,
  context: FlowContext,
): void {
  try {
    if ('error' in outcome) throw outcome.error;
    const records = recordsOf(dependencies, task, outcome, context);
    if ('then' in records) records.then(context.done.bind(context), context.failed.bind(context));
    else context.done(records);
  } catch (error) {
    context.failed(error);
  }
}

/**
 * The stage `deliver.slow`: attaches to a request that a quick stage began, or makes one, however long it takes. A
 * delivery that would wait for too long, or takes up the room of others, is deferred, so that slow destinations do not
 * wait for one another.
 */
export function deliverSlow(
  dependencies: DeliverDependencies,
  windows: PartitionWindows,
): FlowStage['handle'] {
  const { catalog, registry, reads, clock } = dependencies;
  return asyncHandler(async (entry, context) => {
    const read = await reads.task(entry, context.bytes, clock());
    if ('topic' in read) return [read];
    if (isAhead(read, catalog)) await awaitCatalog(catalog, [read]);
    const attached = await registry.attach(read.delivery, context);
    if (attached !== undefined && attached.kind !== 'slow')
      return recordsOf(dependencies, read, attached, context);

    // The quick stage began no request for the delivery, or none after a first one that failed: its attempts are kept.
    const task = attached === undefined ? read : withDelivery(read, attached.delivery);
    const destination = await resolve(dependencies, task);
    if ('delivery' in destination) {
      registry.diverted.completed(task.key);
      return recordsOf(dependencies, task, destination, context);
    }
    const release = windows.tryEnter(entry, destination.id, task.bytes);
    try {
      const queue = registry.queueOf(destination.id);
      const isCrowded = release === undefined && queue.waitMs() > CROWDED_MS;
      const waitMs = isCrowded ? 0 : queue.maxWaitMs(task);
      const sent = await new Promise<Outcome>((resolve, reject) => {
        const item = new QueueItem(task, destination, context, 'patient', waitMs, (outcome) =>
          'error' in outcome ? reject(outcome.error) : resolve(outcome),
        );
        queue.enqueue(item);
      });
      return recordsOf(dependencies, task, sent, context);
    } finally {
      registry.diverted.completed(task.key);
      release?.();
    }
  });
}

/** The retry topics. All records of one wait equally long, so none waits for another that is due later. */
export function retrySources(schedule: RetrySchedule): readonly Source[] {
  return retryDelays(schedule).map(({ label, ms }) => ({
    topic: retryTopic(label),
    dueAt: (appendedAt) => appendedAt + ms,
  }));
}

/**
 * The record of a delivery whose time has not come, for another wait. One that is to wait for longer than a destination may ask
 * for was written while a clock was ahead: it is due.
 */
function recordThatWaits(
  { schedule, clock }: DeliverDependencies,
  { key, value, headers }: LogEntry,
): OutputRecord | undefined {
  const waitMs = (timeIn(headers[HEADER.notBefore]) ?? 0) - clock();
  if (waitMs <= 0 || waitMs > longestAskedMs(schedule)) return undefined;
  return { topic: retryTopic(hopStep(retryDelays(schedule), waitMs).label), key, value, headers };
}

/** The destination of a delivery, or the outcome of one that needs no request now. */
function resolve(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
): Destination | Outcome | Promise<Destination | Outcome> {
  const { catalog, clock, schedule } = dependencies;
  const { state } = catalog;
  const { delivery, headers } = task;
  const { workspace_id, destination_id } = delivery;
  const destination = state.entity('destination', workspace_id, destination_id);
  if (destination?.enabled !== true) return dead(delivery, 'destination', disabledBecause(destination));
  const stopReason = cancelledByRule(delivery, headers, destination.workspace_id, state);
  if (stopReason !== undefined) return dead(delivery, 'rule', stopReason);
  const isStoredHere = storesHere(dependencies, destination);
  if (destination.paused === true || isStoredHere) {
    const over = dependencies.budgets?.verdictOf(workspace_id);
    if (isStoredHere && over !== undefined) return postponedOverBudget(delivery, over, schedule, clock());
    if (destination.paused === true)
      return postponedWhilePaused(delivery, destination, schedule, clock(), over !== undefined);
  }
  return needsEventToMatch(delivery, headers, destination.workspace_id, state)
    ? matchedByEvent(dependencies, task, destination)
    : destination;
}

/** Whether a destination keeps its deliveries on the disk of this process. */
function storesHere({ connectors }: DeliverDependencies, { type }: Destination): boolean {
  return connectors.descriptions.get(type)?.storesHere === true;
}

/** The destination of a delivery whose changed rule is matched with an event that is read for it. */
async function matchedByEvent(
  { reads, catalog }: DeliverDependencies,
  { delivery, headers }: DeliveryTask,
  destination: Destination,
): Promise<Destination | Outcome> {
  const loaded = await reads.withEvent(delivery);
  if (loaded === undefined) return withoutItsEvent(delivery);
  const stopReason = cancelledByRule(loaded, headers, destination.workspace_id, catalog.state);
  return stopReason === undefined ? destination : dead(delivery, 'rule', stopReason);
}

/** Deliveries that wait for less than this make room soon enough for others, ms. */
const CROWDED_MS = 500;

/** The records that a delivery becomes; its outcome is counted with them. */
function recordsOf(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
  outcome: Outcome,
  context: StageContext,
): readonly OutputRecord[] | Promise<readonly OutputRecord[]> {
  const { clock, retentionMs, budgets } = dependencies;
  const { state } = dependencies.catalog;
  const now = clock();
  const { workspace_id: scope, destination_id } = outcome.delivery;
  if (outcome.kind === 'delivered') {
    const destination = state.entity('destination', scope, destination_id);
    if (destination !== undefined && storesHere(dependencies, destination))
      context.count?.({ scope, received: 0, written: task.bytes });
  }
  if (state.isUpgraded && isHolderOld(task, outcome, now, retentionMs)) {
    const over = budgets?.verdictOf(scope);
    if (over === undefined) return renew(dependencies, task, outcome, context);
    // A copy of its event for each of many deliveries: while the log keeps the event, it can be redriven.
    return recordsOf(dependencies, task, notKeptLonger(outcome.delivery, over), context);
  }
  const note = outcomeNote(task, outcome, now);
  if (note === 'unread') return countWithEvent(dependencies, task, outcome, context);
  if (note !== undefined) context.count?.(note);
  return outputRecords(task, outcome, now, state);
}

/** As `recordsOf`, for a delivery that is counted by fields of its event. Without the event nothing is counted. */
async function countWithEvent(
  { reads, clock, catalog }: DeliverDependencies,
  task: DeliveryTask,
  outcome: Outcome,
  context: StageContext,
): Promise<readonly OutputRecord[]> {
  const loaded = await reads.taskWithEvent(task);
  const note = loaded && outcomeNote(loaded, outcome, clock());
  if (typeof note === 'object') context.count?.(note);
  return outputRecords(task, outcome, clock(), catalog.state);
}

/** As `recordsOf`, with a record that holds the delivery and its event; retention counts from then on. */
async function renew(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
  outcome: Outcome,
  context: StageContext,
): Promise<readonly OutputRecord[]> {
  const delivery = await dependencies.reads.withEvent(outcome.delivery);
  if (delivery === undefined)
    return recordsOf(dependencies, task, withoutItsEvent(outcome.delivery), context);
  const now = dependencies.clock();
  const [own, renewed] = [withDelivery(task, delivery), { ...outcome, delivery }];
  const note = outcomeNote(own, renewed, now);
  if (typeof note === 'object') context.count?.(note);
  return renewedRecords(own, renewed, now);
}
