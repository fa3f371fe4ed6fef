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
import { type DeliveryReads, type DeliveryTask, isUntried, timeIn, withDelivery } from './delivery-task.ts';
import { type DestinationQueue, type Failed, QueueItem } from './destination-queue.ts';
import { type DestinationRegistry, onAbort, type RegistryDependencies } from './destination-registry.ts';
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
  readonly catalogWaitMs: number;
  readonly registry: DestinationRegistry;
  /** Follows records that refer to others. */
  readonly reads: DeliveryReads;
  /** Retention of the topics, ms. */
  readonly retentionMs: number;
  /** Absent: no workspace has a budget of bytes. */
  readonly budgets?: Pick<StorageBudgets, 'verdictOf'> | undefined;
}

/** Deliveries of one destination and partition that share a permit of the window. */
interface DeliveryGroup {
  readonly queue: DestinationQueue;
  readonly entry: LogEntry;
  readonly signal: AbortSignal;
  items: QueueItem[];
  bytes: number;
  /** Those that have not ended. */
  left: number;
  /** Called once all have ended. */
  release(): void;
}

/** Bytes of the deliveries of a group, unless one is larger: a small part of a destination's share of a window. */
const GROUP_BYTES = 64 * 1_024;

/** The deliveries that were dispatched for one destination in a turn of the event loop. */
interface Arrivals {
  /** As the queue had them first in this turn. */
  readonly intervalMs: number;
  readonly isSlow: boolean;
  readonly groups: DeliveryGroup[];
}

/**
 * The stages `deliver` and `deliver.retry`. Deliveries of a slow destination go to the slow queue, also one whose
 * request takes long, while the request continues. A delivery that would wait for longer than a retry topic takes goes to one.
 *
 * Deliveries that are dispatched in one turn of the event loop are sent in groups.
 */
export function deliver(
  dependencies: DeliverDependencies,
  windows: PartitionWindows,
): Pick<FlowStage, 'handle' | 'canAccept'> {
  const { catalog, catalogWaitMs, registry, reads, clock, tracing } = dependencies;
  const { diverted, inFlight } = registry;
  const wait = { ms: windows.slowAfterMs, isPatient: false };
  const arrivals = new Map<DestinationQueue, Arrivals>();

  const handle = (entry: LogEntry, context: FlowContext): undefined => {
    const early = recordThatWaits(dependencies, entry);
    if (early !== undefined) return void context.done([early]);
    const read = reads.task(entry, context.bytes, clock());
    if (!('then' in read) && !isAhead(read, catalog)) {
      const destination = resolve(dependencies, read);
      if (!('then' in destination)) return void dispatch(destination, entry, read, context);
    }
    const later = async () => {
      const task = await read;
      if ('topic' in task) return context.done([task]);
      if (isAhead(task, catalog)) await awaitCatalog(catalog, [task], catalogWaitMs);
      dispatch(await resolve(dependencies, task), entry, task, context);
    };
    later().catch((error: unknown) => context.failed(error));
  };

  /** Adds a delivery to a group of its destination, unless it ends or waits without one. */
  const dispatch = (
    destination: Destination | Outcome,
    entry: LogEntry,
    task: DeliveryTask,
    context: FlowContext,
  ): void => {
    if ('delivery' in destination) {
      finish(dependencies, task, destination, context);
      return;
    }
    const queue = registry.queueOf(destination.id);
    const { intervalMs, isSlow, groups } = arrivalsOf(queue);
    if (intervalMs > 0 && isUntried(task)) {
      collect(dependencies, task, destination, context, intervalMs, windows.slowAfterMs).then(
        (outcome) => finish(dependencies, task, outcome, context),
        (error: unknown) => context.failed(error),
      );
      return;
    }
    // A wait for a destination that is not slow is estimated by requests that this process may delay: it ends in the window.
    const deferred = isSlow ? deferral(dependencies, task, destination, queue) : undefined;
    if (deferred !== undefined) {
      finish(dependencies, task, deferred, context);
      return;
    }
    let group = groups.findLast(({ signal }) => signal === context.signal);
    if (group === undefined || group.bytes + task.bytes > GROUP_BYTES) {
      group = { queue, entry, signal: context.signal, items: [], bytes: 0, left: 0, release: () => {} };
      groups.push(group);
    }
    const itsGroup = group;
    group.bytes += task.bytes;
    group.left += 1;
    group.items.push(
      new QueueItem(task, destination, context, wait, (outcome) => {
        finish(dependencies, task, outcome, context);
        itsGroup.left -= 1;
        if (itsGroup.left === 0) itsGroup.release();
      }),
    );
  };

  const arrivalsOf = (queue: DestinationQueue): Arrivals => {
    const known = arrivals.get(queue);
    if (known !== undefined) return known;
    if (arrivals.size === 0) {
      // Outside of the trace of the delivery that happens to be the first.
      if (tracing === undefined) setImmediate(sendAll);
      else tracing.outside(() => void setImmediate(sendAll));
    }
    const first = { intervalMs: queue.intervalMs(), isSlow: queue.isSlow(), groups: [] };
    arrivals.set(queue, first);
    return first;
  };

  const sendAll = () => {
    const all = [...arrivals.values()].flatMap(({ groups }) => groups);
    arrivals.clear();
    for (const group of all) void send(group);
  };

  const send = async (group: DeliveryGroup): Promise<void> => {
    try {
      divert(group);
      if (group.left === 0) return;
      const { queue, entry, signal } = group;
      const permit = await windows.enter(entry, queue.id, group.bytes, queue);
      // Again, as earlier ones of their subjects may have been diverted meanwhile.
      divert(group, permit === undefined);
      if (group.left === 0) return permit?.release();
      let unregister = () => {};
      group.release = () => {
        unregister();
        permit?.release();
      };
      // The partition was left. Deliveries that were left to the slow queue continue.
      unregister = onAbort(signal, () => {
        for (const item of group.items) if (!item.hasLeft) queue.cancel(item);
      });
      // All deliveries of this turn are here: no request needs to wait for more.
      queue.enqueue(group.items, queueMicrotask);
    } catch (error) {
      for (const item of group.items) item.end({ error });
    }
  };

  /**
   * Deliveries follow earlier ones of their subject into the slow queue. So does one whose request continues there: its partition
   * began anew before its record was in the slow queue.
   */
  const divert = (group: DeliveryGroup, all = false): void => {
    group.items = group.items.filter((item) => {
      const { delivery } = item;
      const isUnderWay = inFlight.has(delivery);
      if (!all && !isUnderWay && !diverted.has(item.key)) return true;
      if (!isUnderWay) diverted.add(item.key);
      item.end({ delivery, kind: 'slow' });
      return false;
    });
  };

  return { handle, canAccept: (topic, partition) => windows.canAccept(topic, partition) };
}

/** Finishes the entry of a task with the records that its outcome becomes. */
function finish(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
  outcome: Outcome | Failed,
  context: FlowContext,
): void {
  const failed = (error: unknown) => context.failed(error);
  let records: ReturnType<typeof recordsOf>;
  try {
    if ('error' in outcome) throw outcome.error;
    records = recordsOf(dependencies, task, outcome, context);
  } catch (error) {
    failed(error);
    return;
  }
  if ('then' in records) records.then((known) => context.done(known), failed);
  else context.done(records);
}

/**
 * How long a batch is kept open here for deliveries that are back at the end of their interval, ms: the last wait in the log
 * ends up to a good second late. They need no room in the window, as none of them stays for long.
 */
const TOGETHER_MS = 1_500;

/**
 * Sends a delivery to a destination that collects deliveries for longer than a batch may be kept open here: in a batch that
 * becomes full at once, or else at the end of the interval, for which it waits in the log.
 */
async function collect(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
  destination: Destination,
  context: FlowContext,
  intervalMs: number,
  slowAfterMs: number,
): Promise<Outcome> {
  const { registry } = dependencies;
  const send = (ms: number, collectMs: number) =>
    registry.send(task, destination, context, { ms, isPatient: false, collectMs });
  const leftMs = collectingMs(dependencies, task, intervalMs);
  if (leftMs <= 0) return send(slowAfterMs + TOGETHER_MS, Math.max(0, leftMs + TOGETHER_MS));
  // It has waited for a full batch before.
  if (task.slot !== undefined) return collectedLater(dependencies, task, destination, intervalMs, leftMs);
  const outcome = await send(slowAfterMs, leftMs);
  if (outcome.kind !== 'slow' || registry.inFlight.has(outcome.delivery)) return outcome;
  const stillMs = Math.max(1, collectingMs(dependencies, task, intervalMs));
  return collectedLater(dependencies, task, destination, intervalMs, stillMs);
}

/** How much later than asked for a wait in the log may end, as a share of it and at least in ms: see `hopStep`. */
const LATE_SHARE = 0.02;
const LATE_MS = 1_000;

/**
 * How long a delivery is to wait for others in a batch that is not full, ms: until the interval has ended in which its
 * destination collects deliveries, and all deliveries of the interval are back from the log. Intervals are counted from 1970,
 * so that all processes agree on them, also after a restart. Negative afterwards.
 */
function collectingMs(
  { clock }: Pick<DeliverDependencies, 'clock'>,
  { delivery }: Pick<DeliveryTask, 'delivery'>,
  intervalMs: number,
): number {
  const end = (Math.floor(Date.parse(delivery.created_at) / intervalMs) + 1) * intervalMs;
  const lateMs = Math.max(LATE_MS, intervalMs * LATE_SHARE);
  const leftMs = end + lateMs - clock();
  // A clock may have been ahead.
  return leftMs > intervalMs + lateMs ? 0 : leftMs;
}

/**
 * Defers a delivery for that long: it waits in the log. First until hardly before, so that few records are written for a long
 * wait, and then exactly, so that the deliveries of an interval are back together.
 */
function collectedLater(
  { clock, metrics, schedule }: DeliverDependencies,
  { delivery, deferredSince }: DeliveryTask,
  { type }: Destination,
  intervalMs: number,
  leftMs: number,
): Outcome {
  const now = clock();
  metrics.count('tributary_deliveries_total', { outcome: 'deferred', connector: type });
  const lateMs = Math.max(LATE_MS, intervalMs * LATE_SHARE);
  const { label } = hopStep(retryDelays(schedule), leftMs > 2 * lateMs ? leftMs - lateMs : leftMs);
  return { delivery, kind: 'deferred', label, slot: now + leftMs, since: deferredSince ?? now };
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
  const { catalog, catalogWaitMs, registry, reads, clock } = dependencies;
  return asyncHandler(async (entry, context) => {
    const read = await reads.task(entry, context.bytes, clock());
    if ('topic' in read) return [read];
    if (isAhead(read, catalog)) await awaitCatalog(catalog, [read], catalogWaitMs);
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
    const permit = windows.tryEnter(entry, destination.id, task.bytes);
    try {
      const queue = registry.queueOf(destination.id);
      const early = deferral(dependencies, task, destination, queue, permit !== undefined);
      if (early !== undefined) return recordsOf(dependencies, task, early, context);

      const wait = { ms: maxWaitMs(dependencies, task), isPatient: true };
      const sent = await registry.send(task, destination, context, wait);
      if (sent.kind !== 'slow') return recordsOf(dependencies, task, sent, context);
      const tried = sent.delivery === task.delivery ? task : withDelivery(task, sent.delivery);
      const deferred = registry.queueOf(destination.id).defer(tried, destination);
      return recordsOf(dependencies, tried, deferred, context);
    } finally {
      registry.diverted.completed(task.key);
      permit?.release();
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

/**
 * The deferral of a delivery that would wait for too long, or that its window has no room for; undefined where it may
 * wait here.
 */
export function deferral(
  dependencies: Pick<DeliverDependencies, 'schedule' | 'clock'>,
  task: DeliveryTask,
  destination: Destination,
  queue: DestinationQueue,
  hasRoom = true,
): Outcome | undefined {
  const waitMs = queue.waitMs();
  const isCrowded = !hasRoom && waitMs > CROWDED_MS;
  if (!isCrowded && waitMs <= maxWaitMs(dependencies, task)) return undefined;
  return queue.defer(task, destination);
}

/**
 * How long a delivery may wait for its request: as long as the first retry step, and twice as long from that time before its
 * slot on, so that it gets room before newer ones. The process holds more than it can send until the next deferred one is
 * back.
 */
function maxWaitMs(
  { schedule, clock }: Pick<DeliverDependencies, 'schedule' | 'clock'>,
  { slot }: DeliveryTask,
): number {
  const onceMs = schedule[0].ms;
  return slot !== undefined && slot - clock() <= 2 * onceMs ? 2 * onceMs : onceMs;
}

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
  if (state.refersToRecords && isHolderOld(task, outcome, now, retentionMs)) {
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
