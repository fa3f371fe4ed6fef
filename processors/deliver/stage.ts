import {
  asyncHandler,
  type Catalog,
  type Clock,
  cancelledByRule,
  type Destination,
  type FlowContext,
  type FlowStage,
  HEADER,
  hopStep,
  type LogEntry,
  type Metrics,
  needsEventToMatch,
  type OutputRecord,
  type RetrySchedule,
  retryDelays,
  retryTopic,
  type Source,
  type StageContext,
  type StorageBudgets,
  type Tracing,
} from '@tributary/core';
import { awaitCatalog, isAhead } from '../catalog-position.ts';
import type { PartitionWindows } from '../fairness/partition-windows.ts';
import { collected, collectingMs, defer } from './deferral.ts';
import type { DeliveryReads } from './delivery-reads.ts';
import type { DestinationQueue } from './destination-queue.ts';
import type { DestinationRegistry } from './destination-registry.ts';
import { type Ends, QueueItem, type QueueWait } from './destination-request.ts';
import {
  type DeliveryTask,
  deadWithDestination,
  isHolderOld,
  isUntried,
  longestAskedMs,
  notKeptLonger,
  outputRecords,
  postponedOverBudget,
  postponedWhilePaused,
  type RetryPolicy,
  recordForm,
  renewedRecords,
  type Settled,
  SLOW,
  settledNote,
  stopped,
  timeIn,
  withDelivery,
  withoutItsEvent,
} from './outcome.ts';
import { onAbort, type Sender } from './sender.ts';

export interface DeliverDependencies {
  readonly catalog: Catalog;
  readonly catalogWaitMs: number;
  readonly registry: Pick<DestinationRegistry, 'queueOf' | 'diverted'>;
  readonly sender: Sender;
  readonly policy: RetryPolicy;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Follows records that refer to others. */
  readonly reads: DeliveryReads;
  /** Retention of the topics, ms. */
  readonly retentionMs: number;
  /** Absent: no spans are recorded. */
  readonly tracing?: Tracing | undefined;
  /** Absent: no workspace has a budget of bytes. */
  readonly budgets?: Pick<StorageBudgets, 'verdictOf'> | undefined;
  /** Whether destinations of this type keep their deliveries on the disk of this process. */
  storesHere(type: string): boolean;
}

/**
 * The stages `deliver` and `deliver.retry`. Deliveries of a slow destination go to the slow queue, also one whose
 * request takes long, while the request continues. A delivery that would wait for longer than a retry topic takes goes to one.
 *
 * What is dispatched in one turn of the event loop is sent in groups.
 */
export function deliver(
  dependencies: DeliverDependencies,
  windows: PartitionWindows,
): Pick<FlowStage, 'handle' | 'canAccept'> {
  const { catalog, catalogWaitMs, registry, sender, reads, clock } = dependencies;
  const wait: QueueWait = { ms: windows.slowAfterMs, mayWaitInOpenBatch: false };
  const arrivals = new Map<DestinationQueue, Arrivals>();
  const sendAll = () => {
    const all = [...arrivals.values()].flatMap(({ groups }) => groups);
    arrivals.clear();
    for (const group of all) void group.send();
  };
  // Outside of the trace of the delivery that happens to be the first.
  const sendSoon = () => {
    if (dependencies.tracing === undefined) setImmediate(sendAll);
    else dependencies.tracing.outside(() => void setImmediate(sendAll));
  };
  const arrivalsOf = (queue: DestinationQueue): Arrivals => {
    const known = arrivals.get(queue);
    if (known !== undefined) return known;
    if (arrivals.size === 0) sendSoon();
    const first = { intervalMs: queue.intervalMs(), isSlow: queue.isSlow(), groups: [] };
    arrivals.set(queue, first);
    return first;
  };
  const sendTo = (
    destination: Destination | Settled,
    entry: LogEntry,
    task: DeliveryTask,
    context: FlowContext,
  ) => {
    if ('outcome' in destination) return finish(dependencies, task, destination, context);
    const queue = registry.queueOf(destination.id);
    const { intervalMs, isSlow, groups } = arrivalsOf(queue);
    if (intervalMs > 0 && isUntried(task)) {
      const sent = gathered(dependencies, task, destination, context, intervalMs, windows.slowAfterMs);
      return sent.then(
        (settled) => finish(dependencies, task, settled, context),
        (error: unknown) => context.failed(error),
      );
    }
    // A wait for a destination that is not slow is estimated by requests that this process may delay: it ends in the window.
    const deferred = isSlow ? deferral(dependencies, task, destination, queue) : undefined;
    if (deferred !== undefined) return finish(dependencies, task, deferred, context);
    const open = groups.findLast(({ signal }) => signal === context.signal);
    const hasRoom = open?.hasRoom(task.bytes) === true;
    const group = hasRoom ? open : new DeliveryGroup(dependencies, windows, entry, context.signal, queue);
    if (!hasRoom) groups.push(group);
    group.add(new QueueItem(task, queue, destination, context, wait, sender, group, true));
  };
  const handle = (entry: LogEntry, context: FlowContext): undefined => {
    const early = recordThatWaits(dependencies, entry);
    if (early !== undefined) return void context.done([early]);
    const read = reads.task(entry, context.bytes, clock());
    if (!('then' in read) && !isAhead(read, catalog)) {
      const destination = resolve(dependencies, read);
      if (!('then' in destination)) return void sendTo(destination, entry, read, context);
    }
    const later = async () => {
      const task = await read;
      if ('topic' in task) return context.done([task]);
      if (isAhead(task, catalog)) await awaitCatalog(catalog, [task], catalogWaitMs);
      return sendTo(await resolve(dependencies, task), entry, task, context);
    };
    later().catch((error: unknown) => context.failed(error));
  };
  return { handle, canAccept: (topic, partition) => windows.canAccept(topic, partition) };
}

/** What was dispatched for one destination in a turn of the event loop. */
interface Arrivals {
  /** As the queue had them first in this turn. */
  readonly intervalMs: number;
  readonly isSlow: boolean;
  readonly groups: DeliveryGroup[];
}

/** Bytes of the deliveries of a group, unless one is larger: a small part of a destination's share of a window. */
const GROUP_BYTES = 64 * 1_024;

/** Deliveries of one destination and partition that share a permit of the window. */
class DeliveryGroup implements Ends<FlowContext> {
  readonly signal: AbortSignal;
  readonly #dependencies: DeliverDependencies;
  readonly #windows: PartitionWindows;
  readonly #entry: LogEntry;
  readonly #queue: DestinationQueue;
  #items: QueueItem<FlowContext>[] = [];
  #bytes = 0;
  /** Those that have not ended. */
  #left = 0;
  /** Called once all have ended. */
  #release = () => {};

  constructor(
    dependencies: DeliverDependencies,
    windows: PartitionWindows,
    entry: LogEntry,
    signal: AbortSignal,
    queue: DestinationQueue,
  ) {
    this.#dependencies = dependencies;
    this.#windows = windows;
    this.#entry = entry;
    this.signal = signal;
    this.#queue = queue;
  }

  hasRoom(bytes: number): boolean {
    return this.#bytes + bytes <= GROUP_BYTES;
  }

  add(item: QueueItem<FlowContext>): void {
    this.#items.push(item);
    this.#bytes += item.bytes;
    this.#left += 1;
  }

  async send(): Promise<void> {
    try {
      this.#divert();
      if (this.#left === 0) return;
      const permit = await this.#windows.enter(this.#entry, this.#queue.id, this.#bytes, this.#queue);
      // Again, as earlier ones of their subjects may have been diverted meanwhile.
      this.#divert(permit === undefined);
      if (this.#left === 0) return permit?.release();
      let unregister = () => {};
      this.#release = () => {
        unregister();
        permit?.release();
      };
      unregister = onAbort(this.signal, () => this.#cancel());
      // What is dispatched together is here: no request needs to wait for more.
      this.#queue.enqueue(this.#items, queueMicrotask);
    } catch (error) {
      for (const item of this.#items) item.fail(error);
    }
  }

  /**
   * Deliveries follow earlier ones of their subject into the slow queue. So does one whose request continues there: its partition
   * began anew before its record came to the slow queue.
   */
  #divert(all = false): void {
    const { registry, sender } = this.#dependencies;
    const { diverted } = registry;
    this.#items = this.#items.filter((item) => {
      const isUnderWay = sender.isUnderWay(item.delivery);
      if (!all && !isUnderWay && !diverted.has(item.key)) return true;
      if (!isUnderWay) diverted.add(item.key);
      item.end({ delivery: item.delivery, outcome: SLOW });
      return false;
    });
  }

  /** The partition was left. Deliveries that were left to the slow queue continue. */
  #cancel(): void {
    for (const item of this.#items) if (item.ends === this && !item.isOver) this.#queue.cancel(item);
  }

  /** Part of `Ends`. */
  settled({ task, context }: QueueItem<FlowContext>, settled: Settled): void {
    finish(this.#dependencies, task, settled, context);
    this.#ended();
  }

  /** Part of `Ends`. */
  failed({ context }: QueueItem<FlowContext>, error: unknown): void {
    context.failed(error);
    this.#ended();
  }

  #ended(): void {
    this.#left -= 1;
    if (this.#left === 0) this.#release();
  }
}

/** Finishes the entry of a task with the records that its outcome becomes. */
function finish(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
  settled: Settled,
  context: FlowContext,
): void {
  let outputRecords: ReturnType<typeof settle>;
  try {
    outputRecords = settle(dependencies, task, settled, context);
  } catch (error) {
    context.failed(error);
    return;
  }
  if ('then' in outputRecords)
    outputRecords.then(
      (known) => context.done(known),
      (error) => context.failed(error),
    );
  else context.done(outputRecords);
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
async function gathered(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
  destination: Destination,
  context: FlowContext,
  intervalMs: number,
  slowAfterMs: number,
): Promise<Settled> {
  const { sender } = dependencies;
  const leftMs = collectingMs(dependencies, task, intervalMs);
  const later = (ms: number) => collected(dependencies, task, destination, intervalMs, ms);
  if (leftMs <= 0) {
    const openMs = Math.max(0, leftMs + TOGETHER_MS);
    return sender.sendQuickly(task, destination, context, slowAfterMs + TOGETHER_MS, openMs);
  }
  // It has waited for a full batch before.
  if (task.slot !== undefined) return later(leftMs);
  const settled = await sender.sendQuickly(task, destination, context, slowAfterMs, leftMs);
  if (settled.outcome.kind !== 'slow' || sender.isUnderWay(settled.delivery)) return settled;
  return later(Math.max(1, collectingMs(dependencies, task, intervalMs)));
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
  const { catalog, catalogWaitMs, registry, sender, reads, clock } = dependencies;
  return asyncHandler(async (entry, context) => {
    const read = await reads.task(entry, context.bytes, clock());
    if ('topic' in read) return [read];
    if (isAhead(read, catalog)) await awaitCatalog(catalog, [read], catalogWaitMs);
    const attached = await sender.attach(read, context);
    if (attached !== undefined && attached.outcome.kind !== 'slow')
      return settle(dependencies, read, attached, context);

    // The quick stage began no request for the delivery, or none after a first one that failed: its attempts are kept.
    const task = attached === undefined ? read : withDelivery(read, attached.delivery);
    const destination = await resolve(dependencies, task);
    if ('outcome' in destination) {
      registry.diverted.settled(task.key);
      return settle(dependencies, task, destination, context);
    }
    const permit = windows.tryEnter(entry, destination.id, task.bytes);
    try {
      const queue = registry.queueOf(destination.id);
      const early = deferral(dependencies, task, destination, queue, permit !== undefined);
      if (early !== undefined) return settle(dependencies, task, early, context);

      const wait = { ms: maxWaitMs(dependencies, task), mayWaitInOpenBatch: true };
      const sent = await sender.send(task, destination, context, wait);
      if (sent.outcome.kind !== 'slow') return settle(dependencies, task, sent, context);
      const tried = sent.delivery === task.delivery ? task : withDelivery(task, sent.delivery);
      const latest = registry.queueOf(destination.id);
      const deferred = defer(dependencies, tried, destination, latest, latest.heldUntil());
      return settle(dependencies, tried, deferred, context);
    } finally {
      registry.diverted.settled(task.key);
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
  { policy: { schedule }, clock }: DeliverDependencies,
  { key, value, headers }: LogEntry,
): OutputRecord | undefined {
  const waitMs = (timeIn(headers[HEADER.notBefore]) ?? 0) - clock();
  if (waitMs <= 0 || waitMs > longestAskedMs(schedule)) return undefined;
  return { topic: retryTopic(hopStep(retryDelays(schedule), waitMs).label), key, value, headers };
}

/** The records that a settled delivery becomes; its outcome is counted with them. */
function settle(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
  settled: Settled,
  context: StageContext,
): readonly OutputRecord[] | Promise<readonly OutputRecord[]> {
  const { clock, retentionMs, catalog } = dependencies;
  const now = clock();
  if (settled.outcome.kind === 'delivered') {
    const { workspace_id: scope, destination_id } = settled.delivery;
    const type = catalog.state.entity('destination', scope, destination_id)?.type;
    if (type !== undefined && dependencies.storesHere(type))
      context.count?.({ scope, received: 0, written: task.bytes });
  }
  const form = recordForm(catalog.state);
  if (form === 'references' && isHolderOld(task, settled, now, retentionMs)) {
    const over = dependencies.budgets?.verdictOf(settled.delivery.workspace_id);
    if (over === undefined) return renew(dependencies, task, settled, context);
    // A copy of its event for each of many deliveries: while the log keeps the event, it can be redriven.
    return settle(dependencies, task, notKeptLonger(settled.delivery, over), context);
  }
  const note = settledNote(task, settled, now);
  if (note === 'unread') return settleWithEvent(dependencies, task, settled, context);
  if (note !== undefined) context.count?.(note);
  return outputRecords(task, settled, now, form);
}

/** As `settle`, for a delivery that is counted by fields of its event. Without the event nothing is counted. */
async function settleWithEvent(
  { reads, clock, catalog }: DeliverDependencies,
  task: DeliveryTask,
  settled: Settled,
  context: StageContext,
): Promise<readonly OutputRecord[]> {
  const loaded = await reads.taskWithEvent(task);
  const note = loaded && settledNote(loaded, settled, clock());
  if (typeof note === 'object') context.count?.(note);
  return outputRecords(task, settled, clock(), recordForm(catalog.state));
}

/** As `settle`, with a record that holds the delivery and its event; retention counts from then on. */
async function renew(
  { reads, clock }: DeliverDependencies,
  task: DeliveryTask,
  settled: Settled,
  context: StageContext,
): Promise<readonly OutputRecord[]> {
  const delivery = await reads.withEvent(settled.delivery);
  const own = delivery && withDelivery(task, delivery);
  const renewed = delivery === undefined ? withoutItsEvent(settled.delivery) : { ...settled, delivery };
  const note = settledNote(own ?? task, renewed, clock());
  if (typeof note === 'object') context.count?.(note);
  return own === undefined
    ? outputRecords(task, renewed, clock(), 'references')
    : renewedRecords({ ...own, value: undefined }, renewed, clock());
}

/** The destination of a delivery, or the outcome of one that needs no request now. */
function resolve(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
): Destination | Settled | Promise<Destination | Settled> {
  const { catalog, policy, clock } = dependencies;
  const { state } = catalog;
  const { delivery, headers } = task;
  const { workspace_id, destination_id } = delivery;
  const destination = state.entity('destination', workspace_id, destination_id);
  if (destination?.enabled !== true) return deadWithDestination(delivery, destination);
  const stopReason = cancelledByRule(delivery, headers, destination.workspace_id, state);
  if (stopReason !== undefined) return stopped(delivery, stopReason);
  const isStoredHere = dependencies.storesHere(destination.type);
  if (destination.paused === true || isStoredHere) {
    const over = dependencies.budgets?.verdictOf(workspace_id);
    if (isStoredHere && over !== undefined) return postponedOverBudget(delivery, over, policy, clock());
    if (destination.paused === true)
      return postponedWhilePaused(delivery, destination, policy, clock(), over !== undefined);
  }
  return needsEventToMatch(delivery, headers, destination.workspace_id, state)
    ? matchedByEvent(dependencies, task, destination)
    : destination;
}

/** The destination of a delivery whose changed rule is matched with an event that is read for it. */
async function matchedByEvent(
  { reads, catalog }: DeliverDependencies,
  { delivery, headers }: DeliveryTask,
  destination: Destination,
): Promise<Destination | Settled> {
  const loaded = await reads.withEvent(delivery);
  if (loaded === undefined) return withoutItsEvent(delivery);
  const stopReason = cancelledByRule(loaded, headers, destination.workspace_id, catalog.state);
  return stopReason === undefined ? destination : stopped(delivery, stopReason);
}

/**
 * How long a delivery may wait for its request: as long as the first retry step, and twice as long from that time before its
 * slot on, so that it gets room before newer ones. The process holds more than it can send until the next deferred one is
 * back.
 */
function maxWaitMs({ policy: { schedule }, clock }: DeliverDependencies, { slot }: DeliveryTask): number {
  const onceMs = schedule[0].ms;
  return slot !== undefined && slot - clock() <= 2 * onceMs ? 2 * onceMs : onceMs;
}

/** Deliveries that wait for less than this make room soon enough for others, ms. */
const CROWDED_MS = 500;

/**
 * The deferral of a delivery that would wait for too long, or that its window has no room for; undefined where it may
 * wait here.
 */
export function deferral(
  dependencies: DeliverDependencies,
  task: DeliveryTask,
  destination: Destination,
  queue: DestinationQueue,
  hasRoom = true,
): Settled | undefined {
  const waitMs = queue.waitMs();
  const isCrowded = !hasRoom && waitMs > CROWDED_MS;
  if (!isCrowded && waitMs <= maxWaitMs(dependencies, task)) return undefined;
  return defer(dependencies, task, destination, queue, queue.heldUntil());
}
