import {
  type Catalog,
  type Connector,
  type Delivery,
  type DeliveryResult,
  type Destination,
  deliveryKey,
  deliveryText,
  HEADER,
  type Headers,
  iso,
  NO_LOGGER,
  NO_METRICS,
  parseRetrySchedule,
  type StageContext,
  TOPIC,
} from '@tributary/core';
import { onTestFinished, vi } from 'vitest';
import { TimeoutWheel } from '../fairness/waits.ts';
import { DEFAULT_BREAKER } from './admission.ts';
import { DeliveryReads, type DeliveryTask, RETRYING, readTask } from './delivery-task.ts';
import { QueueItem } from './destination-queue.ts';
import { DestinationRegistry, type RegistryDependencies } from './destination-registry.ts';
import { DEFAULT_ALERT_LIMITS, type DestinationReport } from './health.ts';
import type { Outcome } from './outcome.ts';
import type { DeliverDependencies } from './stage.ts';

/** Deliveries, a destination and a scripted connector for the specs of this folder. */
export const START = Date.parse('2026-01-01T00:00:00Z');
export const OK: DeliveryResult = { outcome: 'delivered', status: 200 };
/** A refusal for the rate. */
export const BUSY: DeliveryResult = { outcome: 'retry', reason: 'HTTP 429', status: 429, throttled: true };
export const DOWN: DeliveryResult = { outcome: 'retry', reason: 'HTTP 503', status: 503 };

export const DESTINATION: Destination = {
  id: 'destination',
  version: 1,
  workspace_id: 'w1',
  name: 'n',
  type: 'scripted',
  settings: {},
  enabled: true,
  created_by: 'a1',
  created_at: iso(START),
  updated_at: iso(START),
};

export function delivery(id: string, fields: Partial<Delivery> = {}): Delivery {
  return {
    id,
    workspace_id: 'w1',
    environment: 'production',
    destination_id: 'destination',
    rule_id: 'rule',
    message_id: id,
    index: 0,
    created_at: iso(START),
    attempts: [],
    redrives: 0,
    event: {
      message_id: id,
      type: 'identify',
      user_id: `u${id}`,
      timestamp: iso(START),
      received_at: iso(START),
      environment: 'production',
      workspace_id: 'w1',
    },
    ...fields,
  };
}

/** The report on a destination that nothing is delivered to. */
export function quietReport(id: string, fields: Partial<DestinationReport>): DestinationReport {
  return {
    destination_id: id,
    at: START,
    window_ms: 1_000,
    delivered: 0,
    retry: 0,
    dead: 0,
    throttled: 0,
    put_off: 0,
    latency: [],
    waiting: 0,
    under_way: 0,
    oldest_waiting_at: null,
    circuit: 'closed',
    circuit_since: 0,
    last_delivered_at: null,
    last_errors: [],
    ...fields,
  };
}

/** The headers of a delivery that comes for the first time; its rule is as it was when the delivery was made. */
export const FRESH: Headers = { [HEADER.ruleVersion]: '0', [HEADER.catalogPosition]: '0' };
/** The headers of a delivery that was tried or postponed before. */
export const POSTPONED: Headers = { ...FRESH, [HEADER.outcome]: RETRYING };

export function taskOf(one: Delivery, headers: Headers = POSTPONED): DeliveryTask {
  const value = deliveryText(one);
  const position = { topic: TOPIC.deliveries, partition: 0, offset: 0, index: 0 };
  return readTask({ key: deliveryKey(one), value, headers, position, timestamp: START }, value.length);
}

/** A task of a delivery that was deferred until its scheduled time, since then. */
export function deferredTask(one: Delivery, scheduledAt: number, since = START): DeliveryTask {
  return taskOf(one, {
    ...POSTPONED,
    [HEADER.scheduledAt]: `${scheduledAt}`,
    [HEADER.deferredSince]: `${since}`,
  });
}

/** A destination that does what the test says. */
export function setUp(
  answer: (d: Delivery) => DeliveryResult | Promise<DeliveryResult>,
  {
    size = () => 1,
    holdMs = 0,
    maxConcurrency = 16,
    perSecond,
    waitMs = 12_000,
  }: {
    size?: () => number;
    holdMs?: number;
    maxConcurrency?: number;
    perSecond?: number;
    waitMs?: number;
  } = {},
) {
  const calls: { ids: string[]; version: number; signal: AbortSignal }[] = [];
  /** `busy`: the part of `elapsed` in which the thread was busy. */
  const time = { now: START, elapsed: 0, busy: 0 };
  const known = new Map([[DESTINATION.id, DESTINATION]]);
  const errors: string[] = [];
  let unsealed = 0;
  const connector: Connector = {
    batchLimits: () => ({ events: size(), ms: holdMs }),
    test: async () => ({ ok: true }),
    async deliver(destination, deliveries, { signal }) {
      calls.push({ ids: deliveries.map(({ id }) => id), version: destination.version, signal });
      return Promise.all(deliveries.map(answer));
    },
    async close() {},
  };
  const clock = () => time.now;
  const elapsed = () => time.elapsed;
  const waited = () => time.elapsed - time.busy;
  const reads = new DeliveryReads({ read: async () => undefined, eventText: async () => undefined });
  const timeouts = new TimeoutWheel(waited);
  // Requests that a test leaves unanswered end with it: their timer would go on by the fake clocks of later tests.
  onTestFinished(() => {
    time.elapsed = Number.POSITIVE_INFINITY;
  });
  const catalog = {
    position: 0,
    // Any rule is as it was when the deliveries were made.
    state: {
      entity: (kind: string, _workspace: string, id: string) =>
        kind === 'destination' ? known.get(id) : { id, version: 0 },
      destination: (id: string) => known.get(id),
    },
  } as unknown as Catalog;
  const dependencies = {
    catalog,
    connectors: {
      descriptions: new Map(),
      prepare: async () => undefined,
      connector: (type: string) => (type === 'scripted' ? connector : undefined),
      warehouse: () => undefined,
      async close() {},
    },
    unseal({ id, workspace_id, version, settings }: Destination) {
      unsealed += 1;
      if (settings.broken === true) throw new Error('no key');
      return { id, workspaceId: workspace_id, version, settings };
    },
    clock,
    elapsed,
    waited,
    timeouts,
    metrics: NO_METRICS,
    logger: { ...NO_LOGGER, error: (_about: object, message: string) => void errors.push(message) },
    breaker: { ...DEFAULT_BREAKER, consecutiveFailures: 3 },
    condition: DEFAULT_ALERT_LIMITS,
    schedule: parseRetrySchedule(['10s', '1m', '10m', '1h', '6h']),
    expiryMs: 24 * 3_600_000,
    maxRequests: maxConcurrency,
    requestsPerSecond: perSecond,
    reads,
  } satisfies RegistryDependencies;
  const registry = new DestinationRegistry(dependencies);
  const stage: DeliverDependencies = {
    ...dependencies,
    registry,
    retentionMs: 7 * 24 * 3_600_000,
  };
  const { signal } = new AbortController();
  const send = (
    task: DeliveryTask,
    destination: Destination,
    context: StageContext,
    lane: 'quick' | 'patient',
    waitMs: number,
  ) =>
    new Promise<Outcome>((resolve, reject) => {
      const item = new QueueItem(task, destination, context, lane, waitMs, (outcome) =>
        'error' in outcome ? reject(outcome.error) : resolve(outcome),
      );
      registry.queueOf(destination.id).enqueue(item);
    });
  /** As the slow stage sends. */
  const sendTask = (task: DeliveryTask, destination = DESTINATION, until = signal) => {
    known.set(destination.id, destination);
    return send(task, destination, { signal: until }, 'patient', waitMs);
  };
  const run = (one: Delivery, destination = DESTINATION, until = signal) =>
    sendTask(taskOf(one), destination, until);
  /** The outcome in the slow stage of a delivery that would wait for too long; undefined for one that may wait. */
  const deferred = async (task: DeliveryTask): Promise<Outcome | undefined> => {
    const waiting = new AbortController();
    const waitMs = registry.queueOf(DESTINATION.id).maxWaitMs(task);
    const sent = send(task, DESTINATION, { signal: waiting.signal }, 'patient', waitMs);
    const outcome = await Promise.race([sent, turn()]);
    sent.catch(() => {});
    waiting.abort();
    return outcome ?? undefined;
  };
  const sendQuickly = (task: DeliveryTask, context: StageContext = { signal }, slowAfterMs = 500) =>
    send(task, DESTINATION, context, 'quick', slowAfterMs);
  /** Sends as a quick stage does, and waits until it has left the delivery to the slow queue. */
  const leaveToSlowQueue = async (one: Delivery) => {
    const soon = sendQuickly(taskOf(one));
    await turn();
    time.elapsed += 501;
    return soon;
  };
  const attach = (one: Delivery, until = signal) => registry.attach(one, { signal: until });
  return {
    calls,
    time,
    known,
    errors,
    registry,
    stage,
    sendTask,
    run,
    deferred,
    sendQuickly,
    leaveToSlowQueue,
    attach,
    unsealings: () => unsealed,
  };
}

/** A destination with so many requests at a time, each of which hangs until the test lets it go. */
export function setUpHanging(maxConcurrency = 1) {
  const release: ((result: DeliveryResult) => void)[] = [];
  const set = setUp(() => new Promise((resolve) => release.push(resolve)), { maxConcurrency });
  const begin = (id: string) => set.run(delivery(id));
  return { ...set, release, begin };
}

export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}

/** Lets time pass in a spec with fake timers. */
export function timePasser(time: { now: number; elapsed: number }) {
  return async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 25) {
      time.elapsed += 25;
      time.now += 25;
      await vi.advanceTimersByTimeAsync(25);
      await turn();
    }
  };
}
