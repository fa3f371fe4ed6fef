import {
  CatalogState,
  type Connector,
  DEFAULT_BREAKER,
  type Delivery,
  type DeliveryResult,
  type Destination,
  iso,
  NO_LOGGER,
  NO_METRICS,
  parseLadder,
  type StageContext,
  StoredDelivery,
} from '@tributary/core';
import type { Delivered } from './climb.ts';
import { Deliverer, type DelivererDependencies } from './deliverer.ts';
import type { DestinationReport } from './destination-calls.ts';
import type { Arrived, Settled } from './making.ts';

/** Deliveries, a destination and a scripted connector for the specs of this folder. */
export const START = Date.parse('2026-01-01T00:00:00Z');
export const OK: DeliveryResult = { outcome: 'delivered', status: 200 };
export const DOWN: DeliveryResult = { outcome: 'retry', reason: 'HTTP 503', status: 503 };

export const PLACE: Destination = {
  id: 'place',
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
    destination_id: 'place',
    rule_id: 'rule',
    message_id: id,
    index: 0,
    created_at: iso(START),
    attempts: [],
    redrives: 0,
    event: {
      message_id: id,
      type: 'identify',
      user_id: 'u',
      timestamp: iso(START),
      received_at: iso(START),
      environment: 'production',
      workspace_id: 'w1',
    },
    ...fields,
  };
}

/** What is told of a destination that nothing is delivered to. */
export function quietReport(id: string, fields: Partial<DestinationReport>): DestinationReport {
  return {
    destination_id: id,
    at: START,
    window_ms: 1_000,
    delivered: 0,
    retry: 0,
    dead: 0,
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

export function arrived(one: Delivery, turn?: number, asideSince?: number): Arrived {
  return { stored: StoredDelivery.of(one), bytes: JSON.stringify(one).length, turn, asideSince };
}

/** A destination that does what the test says. */
export function setUp(
  answer: (d: Delivery) => DeliveryResult | Promise<DeliveryResult>,
  {
    size = () => 1,
    holdMs = 0,
    maxCalls = 16,
    perSecond,
  }: { size?: () => number; holdMs?: number; maxCalls?: number; perSecond?: number } = {},
) {
  const calls: { ids: string[]; version: number; signal: AbortSignal }[] = [];
  const time = { now: START, elapsed: 0 };
  const known = new Map([[PLACE.id, PLACE]]);
  const errors: string[] = [];
  const load = { overloaded: false };
  const gone: [id: string, version: number][] = [];
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
  const dependencies: DelivererDependencies = {
    connectors: {
      descriptions: new Map(),
      connector: (type) => (type === 'scripted' ? connector : undefined),
      async close() {},
    },
    unseal({ id, workspace_id, version, settings }) {
      unsealed += 1;
      if (settings.broken === true) throw new Error('no key');
      return { id, workspaceId: workspace_id, version, settings };
    },
    current: (id) => known.get(id),
    clock: () => time.now,
    elapsed: () => time.elapsed,
    metrics: NO_METRICS,
    catalog: { position: 0, state: new CatalogState() },
    logger: { ...NO_LOGGER, error: (_about: object, message: string) => void errors.push(message) },
    breaker: { ...DEFAULT_BREAKER, consecutiveFailures: 3 },
    limitsOf: () => ({ maxCalls, perSecond }),
    overloaded: () => load.overloaded,
    noteUse: () => {},
    noteGone: (id: string, version: number) => void gone.push([id, version]),
    keptAttempts: 50,
    ladder: parseLadder(['10s', '1m', '10m', '1h', '6h']),
    expiryMs: 24 * 3_600_000,
  };
  const deliverer = new Deliverer(dependencies);
  const { signal } = new AbortController();
  const run = (one: Delivery, place = PLACE, until = signal) => {
    known.set(place.id, place);
    return deliverer.deliver(arrived(one), place, { signal: until });
  };
  const soonDelivered = async (
    one: Arrived,
    context: StageContext = { signal },
    patienceMs = 500,
  ): Promise<Delivered> => {
    const { stored, settlement } = await new Promise<Settled>((resolve, failed) => {
      deliverer.deliverSoon(one, PLACE, context, patienceMs, {
        settled: (stored, settlement) => resolve({ stored, settlement }),
        failed,
      });
    });
    return { delivery: stored.delivery, settlement };
  };
  /** Begins in a quick lane and lets its patience pass. */
  const handOver = async (one: Delivery, context: StageContext = { signal }) => {
    const soon = soonDelivered(arrived(one), context);
    await turn();
    time.elapsed += 501;
    return soon;
  };
  const join = (one: Delivery, until = signal) => deliverer.join(one, { signal: until });
  return {
    calls,
    time,
    known,
    errors,
    gone,
    load,
    dependencies,
    deliverer,
    run,
    soonDelivered,
    handOver,
    join,
    unsealings: () => unsealed,
  };
}

/** A destination with so many calls at a time, each of which hangs until the test lets it go. */
export function setUpHanging(maxCalls = 1) {
  const { signal } = new AbortController();
  const release: ((result: DeliveryResult) => void)[] = [];
  const set = setUp(() => new Promise((resolve) => release.push(resolve)), { maxCalls });
  const begin = (id: string) => set.deliverer.deliver(arrived(delivery(id)), PLACE, { signal });
  return { ...set, release, begin };
}

export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}
