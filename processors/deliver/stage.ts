import {
  asyncHandler,
  type Catalog,
  type Clock,
  cancelledByRule,
  type Destination,
  dueAt,
  type FlowContext,
  type FlowStage,
  HEADER,
  type LogEntry,
  MAX_JITTER,
  type Metrics,
  type OutputRecord,
  type RetrySchedule,
  retryTopic,
  type Source,
  type StageContext,
  TOPIC,
} from '@tributary/core';
import { awaitCatalog, isAhead } from '../catalog-position.ts';
import type { PartitionWindows } from '../fairness/partition-windows.ts';
import { settledNote } from './delivery-notes.ts';
import type { DestinationQueue } from './destination-queue.ts';
import type { DestinationRegistry } from './destination-registry.ts';
import {
  type DeliveryTask,
  deadWithDestination,
  outputRecords,
  postponedWhilePaused,
  type RetryPolicy,
  readTask,
  type Settled,
  stopped,
  withDelivery,
} from './outcome.ts';
import type { Sender } from './sender.ts';

export interface DeliverDependencies {
  readonly catalog: Catalog;
  readonly catalogWaitMs: number;
  readonly registry: Pick<DestinationRegistry, 'queueOf'>;
  readonly sender: Pick<Sender, 'send' | 'sendQuickly' | 'attach'>;
  readonly policy: RetryPolicy;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Whether this process has more to do than it can. */
  saturated(): boolean;
}

/**
 * The stages `deliver` and `deliver.retry`. Deliveries of a slow destination go to the slow queue, also one whose
 * request takes long, while the request continues. A delivery that would wait for longer than a retry topic takes goes to one.
 */
export function deliver(
  dependencies: DeliverDependencies,
  windows: PartitionWindows,
): Pick<FlowStage, 'handle' | 'canAccept'> {
  const { catalog, catalogWaitMs, registry, sender } = dependencies;
  const handle = async (entry: LogEntry, context: FlowContext): Promise<readonly OutputRecord[]> => {
    if (isAhead(entry, catalog)) await awaitCatalog(catalog, [entry], catalogWaitMs);
    const task = readTask(entry, context.bytes);
    const destination = resolve(dependencies, task);
    if ('outcome' in destination) return settle(dependencies, task, destination, context);

    const queue = registry.queueOf(destination.id);
    const deferred = deferral(dependencies, task, destination, queue);
    if (deferred !== undefined) return settle(dependencies, task, deferred, context);

    const permit = await windows.enter(entry, destination.id, context.bytes, queue.pressure);
    if (permit === undefined) return [slowRecord(entry)];
    try {
      const settled = await sender.sendQuickly(task, destination, context, windows.slowAfterMs);
      return settle(dependencies, task, settled, context);
    } finally {
      permit.release();
    }
  };
  return {
    handle: asyncHandler(handle),
    canAccept: (topic, partition) => windows.canAccept(topic, partition),
  };
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
  const { catalog, catalogWaitMs, registry, sender } = dependencies;
  return asyncHandler(async (entry, context) => {
    if (isAhead(entry, catalog)) await awaitCatalog(catalog, [entry], catalogWaitMs);
    const read = readTask(entry, context.bytes);
    const attached = await sender.attach(read, context);
    if (attached !== undefined && attached.outcome.kind !== 'slow')
      return settle(dependencies, read, attached, context);

    // The quick stage began no request for the delivery, or none after a first one that failed: its attempts are kept.
    const task = attached === undefined ? read : withDelivery(read, attached.delivery);
    const destination = resolve(dependencies, task);
    if ('outcome' in destination) return settle(dependencies, task, destination, context);

    const permit = windows.tryEnter(entry, destination.id, context.bytes);
    try {
      const queue = registry.queueOf(destination.id);
      const early = deferral(dependencies, task, destination, queue, permit !== undefined);
      if (early !== undefined) return settle(dependencies, task, early, context);

      const wait = { ms: maxWaitMs(dependencies, task), mayWaitInOpenBatch: true };
      const sent = await sender.send(task, destination, context, wait);
      if (sent.outcome.kind !== 'slow') return settle(dependencies, task, sent, context);
      const tried = sent.delivery === task.delivery ? task : withDelivery(task, sent.delivery);
      const deferred = defer(dependencies, tried, destination, registry.queueOf(destination.id));
      return settle(dependencies, tried, deferred, context);
    } finally {
      permit?.release();
    }
  });
}

/**
 * The retry topics. The jitter of deliveries that failed together is that of their messages, so they come back apart. A
 * deferred delivery comes back before its slot when its destination would be idle otherwise: the slot is an estimate.
 */
export function retrySources(
  schedule: RetrySchedule,
  registry: Pick<DestinationRegistry, 'recall'>,
): readonly Source[] {
  return schedule.map(({ label, ms }) => ({
    topic: retryTopic(label),
    dueAt: ({ timestamp, headers, key }) => {
      const { [HEADER.scheduledAt]: slot, [HEADER.destinationId]: destinationId } = headers;
      if (slot !== undefined && destinationId !== undefined && registry.recall(destinationId))
        return timestamp;
      return dueAt(timestamp, ms, headers[HEADER.messageId] ?? key);
    },
  }));
}

/** The records that a settled delivery becomes; its outcome is counted with them. */
function settle(
  { clock }: Pick<DeliverDependencies, 'clock'>,
  task: DeliveryTask,
  settled: Settled,
  context: StageContext,
): readonly OutputRecord[] {
  const now = clock();
  const note = settledNote(task, settled, now);
  if (note !== undefined) context.count?.(note);
  return outputRecords(task, settled, now);
}

/** The destination of a delivery, or the outcome of one that needs no request now. */
function resolve(
  { catalog: { state }, policy, clock }: DeliverDependencies,
  { delivery, headers }: DeliveryTask,
): Destination | Settled {
  const { workspace_id, destination_id } = delivery;
  const destination = state.entity('destination', workspace_id, destination_id);
  if (destination?.enabled !== true) return deadWithDestination(delivery, destination);
  const stopReason = cancelledByRule(delivery, headers, destination.workspace_id, state);
  if (stopReason !== undefined) return stopped(delivery, stopReason);
  if (destination.paused === true) return postponedWhilePaused(delivery, destination, policy, clock());
  return destination;
}

/**
 * How long a delivery may wait for its request: as long as the shortest retry step takes at most, and twice as long from
 * that time before its slot on. So a process holds as many deliveries as it can send until the first deferred one is back.
 */
function maxWaitMs({ policy: { schedule }, clock }: DeliverDependencies, { slot }: DeliveryTask): number {
  const onceMs = schedule[0].ms * (1 + MAX_JITTER);
  return slot !== undefined && slot - clock() <= onceMs ? 2 * onceMs : onceMs;
}

/**
 * The deferral of a delivery that would wait for too long, or that its window has no room for; undefined where it may
 * wait here. Room does not count while this process is saturated: then deliveries wait in the log, unread.
 */
export function deferral(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
  destination: Destination,
  queue: DestinationQueue,
  hasRoom = true,
): Settled | undefined {
  const waitMs = queue.waitForDestinationMs();
  const isCrowded = !hasRoom && waitMs > 0 && !dependencies.saturated();
  if (!isCrowded && waitMs <= maxWaitMs(dependencies, task)) return undefined;
  return defer(dependencies, task, destination, queue);
}

/**
 * Defers a delivery until its scheduled slot, without an attempt. It expires by how long there was no room for it, not by
 * its age: time that it lay in the log is not its destination's doing.
 */
function defer(
  { clock, metrics, policy: { expiryMs } }: DeliverDependencies,
  { delivery, slot, deferredSince }: DeliveryTask,
  { type }: Destination,
  queue: DestinationQueue,
): Settled {
  queue.noteNotAttempted();
  const now = clock();
  const since = deferredSince ?? now;
  if (now - since >= expiryMs) {
    const reason = 'expired: its destination had no room for it';
    return { delivery, outcome: { kind: 'dead', cause: 'expired', reason } };
  }
  metrics.count('tributary_deliveries_total', { outcome: 'deferred', connector: type });
  const { at, step } = queue.schedule(slot);
  return { delivery, outcome: { kind: 'deferred', label: step.label, slot: Math.round(at), since } };
}

/** The record for the slow queue, unchanged. */
function slowRecord({ key, value, headers }: LogEntry): OutputRecord {
  return { topic: TOPIC.deliveriesSlow, key, value, headers };
}
