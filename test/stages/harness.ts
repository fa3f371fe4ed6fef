import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type CanonicalEvent,
  type ConfirmationClaim,
  type Connector,
  type ConnectorCatalog,
  type ConnectorDescription,
  type ContractVerdict,
  type Counters,
  type CountsBatch,
  type Delivery,
  type DeliveryOutcome,
  type DeliveryResult,
  Fenced,
  formatPosition,
  HEADER,
  type Headers,
  type History,
  type LogEntry,
  type Logger,
  type Mailer,
  type Metrics,
  NO_LOGGER,
  NO_METRICS,
  type OutputRecord,
  type Position,
  type ProfileStore,
  type RunTally,
  readDeliveryEntry,
  readDeliveryReference,
  readOutcome,
  referencedOutcome,
  runFlowStage,
  type Sandbox,
  type SandboxInput,
  type SandboxResult,
  type ScopeBytes,
  type Stage,
  type StageNote,
  TOPIC,
} from '@tributary/core';
import { openInProcessLiveTail, openSqliteDeduplicator, openSqliteHistory } from '@tributary/infra';
import {
  createPipeline,
  type PipelineDependencies,
  type PipelineOptions,
  RunMetrics,
} from '@tributary/processors';
import { expect, onTestFinished } from 'vitest';
import { MemoryCatalog, WORKSPACE } from './memory-catalog.ts';
import { RecordedProfiles } from './profiles/recorded-profiles.ts';

const DAY_MS = 24 * 3_600_000;

export const START = Date.parse('2026-01-01T10:00:00Z');

/** Counters that record their batches, and can be set back as by a failover, which SQLite cannot. */
export class RecordedCounters implements Counters {
  readonly offsets = new Map<string, number>();
  readonly batches: CountsBatch[] = [];
  readonly tallies: RunTally[] = [];

  async applied({ topic, partition }: { topic: string; partition: number }): Promise<number> {
    return this.offsets.get(`${topic}/${partition}`) ?? 0;
  }

  async apply(batch: CountsBatch): Promise<void> {
    const key = `${batch.topic}/${batch.partition}`;
    if ((this.offsets.get(key) ?? 0) !== batch.from) throw new Fenced('another offset');
    this.offsets.set(key, batch.to);
    this.batches.push(batch);
  }

  async funnel() {
    return [];
  }
  async samples() {
    return [];
  }
  async volume() {
    return [];
  }
  /** Of all hours together. */
  async bytes() {
    const sums = new Map<string, ScopeBytes>();
    for (const { scope, received, written } of this.batches.flatMap(({ bytes = [] }) => bytes)) {
      const known = sums.get(scope) ?? { received: 0, written: 0 };
      sums.set(scope, { scope, received: known.received + received, written: known.written + written });
    }
    return [...sums.values()];
  }
  async lastUsed() {
    return new Map();
  }
  async touch(): Promise<void> {}
  async addRuns(tallies: readonly RunTally[]): Promise<void> {
    this.tallies.push(...tallies);
  }
  async runs() {
    return [];
  }
  async close(): Promise<void> {}
}

/** The outside world as controlled by a test. */
export interface World {
  /** Transforms an event. Default: returns it. */
  transform(source: string, input: SandboxInput): SandboxResult | Promise<SandboxResult>;
  /** The destination's answer to a delivery. Default: accepted. */
  deliver(delivery: Delivery): DeliveryResult | Promise<DeliveryResult>;
  /** The verdict of the contracts. Default: accepted. */
  evaluate(event: CanonicalEvent): ContractVerdict;
}

function scriptedSandbox(world: World): Sandbox {
  return {
    run: ({ source }, inputs) => Promise.all(inputs.map((input) => world.transform(source, input))),
    async check() {
      return undefined;
    },
    async close() {},
  };
}

/** The type of destinations that keep their deliveries on the disk of the process. */
export const STORED_HERE = 'stored here';

function scriptedConnectors(world: Pick<World, 'deliver'>): ConnectorCatalog {
  const connector: Connector = {
    batchLimits: () => ({ events: 10 }),
    test: async () => ({ ok: true }),
    deliver: (_destination, deliveries) => Promise.all(deliveries.map((delivery) => world.deliver(delivery))),
    async close() {},
  };
  const here: ConnectorDescription = {
    type: STORED_HERE,
    title: '',
    description: '',
    settingsSchema: {},
    secrets: [],
    harmless: [],
    maxBatch: 10,
    hasTest: true,
    storesHere: true,
  };
  return {
    descriptions: new Map([[here.type, here]]),
    prepare: async () => undefined,
    connector: () => connector,
    warehouse: () => undefined,
    async close() {},
  };
}

/** The result of a transformation that returns its event. */
export function singleOutput({ event }: SandboxInput): SandboxResult {
  return { ok: true, outputs: [event], logs: [], durationMs: 1, loadMs: 0 };
}

/**
 * The whole pipeline with its stages driven by the test, in a world that the test scripts. `shared` is the
 * state in common with another process.
 */
export function setUp(
  options: Partial<PipelineOptions> = {},
  shared: {
    readonly catalog?: MemoryCatalog;
    readonly history?: History;
    /** The log for lookups of facts and records; default: the facts of the catalog, and the records given to `run`. */
    readonly log?: PipelineDependencies['log'];
    readonly profiles?: ProfileStore;
    readonly mailer?: Mailer;
    readonly confirmationLink?: (claim: ConfirmationClaim) => string;
    readonly logger?: Logger;
    readonly metrics?: Metrics;
    readonly budgets?: PipelineDependencies['budgets'];
  } = {},
) {
  const world: World = {
    transform: (_source, input) => singleOutput(input),
    deliver: () => ({ outcome: 'delivered' }),
    evaluate: () => ({ outcome: 'accepted', violations: [] }),
  };
  const time = {
    now: START,
    elapsed: 0,
    pass(ms: number) {
      time.now += ms;
      time.elapsed += ms;
    },
  };
  const catalog = shared.catalog ?? new MemoryCatalog();
  /** The records that the stages were given, by position. */
  const given = new Map<string, LogEntry>();
  const recordAt = (position: Position) => {
    const entry = given.get(formatPosition(position));
    return { entries: entry === undefined ? [] : [entry], next: position.offset + 1 };
  };
  const counters = new RecordedCounters();
  const notes: StageNote[] = [];
  const clock = () => time.now;
  const folder = mkdtempSync(join(tmpdir(), 'tributary-stages-'));
  const deduplicator = openSqliteDeduplicator({ folder: join(folder, 'dedupe'), windowMs: DAY_MS, clock });
  const reevaluations = openSqliteDeduplicator({
    folder: join(folder, 'reevaluated'),
    windowMs: 7 * DAY_MS,
    clock,
  });
  const history =
    shared.history ?? openSqliteHistory({ folder: join(folder, 'history'), retentionMs: DAY_MS, clock });
  onTestFinished(async () => {
    await Promise.all([deduplicator.close(), reevaluations.close(), history.close(), liveTail.close()]);
    rmSync(folder, { recursive: true, force: true });
  });
  const liveTail = openInProcessLiveTail({ logger: NO_LOGGER });
  const dependencies: PipelineDependencies = {
    log: shared.log ?? {
      read: async (topic, partition, from) =>
        topic === TOPIC.catalog
          ? factsFrom(catalog, from)
          : recordAt({ topic, partition, offset: from, index: 0 }),
      end: async () => catalog.facts.length,
      first: async () => 0,
      offsetAt: async () => 0,
      topics: new Map(),
    },
    catalog,
    deduplicator,
    reevaluations,
    contracts: { evaluate: (_contract, event) => world.evaluate(event), *prepare() {} },
    counters,
    runMetrics: new RunMetrics({
      counters,
      clock,
      metrics: shared.metrics ?? NO_METRICS,
      logger: shared.logger ?? NO_LOGGER,
    }),
    history,
    liveTail,
    profiles: shared.profiles ?? new RecordedProfiles(),
    ...(shared.mailer && { mailer: shared.mailer }),
    ...(shared.confirmationLink && { confirmationLink: shared.confirmationLink }),
    ...(shared.budgets && { budgets: shared.budgets }),
    sandbox: scriptedSandbox(world),
    slowSandbox: scriptedSandbox(world),
    connectors: scriptedConnectors(world),
    unseal: ({ id, workspace_id, version, settings }) => ({
      id,
      workspaceId: workspace_id,
      version,
      settings,
    }),
    clock,
    elapsed: () => time.elapsed,
    threadTime: { cpu: () => time.elapsed, available: () => time.elapsed },
    waited: () => time.elapsed,
    logger: shared.logger ?? NO_LOGGER,
    metrics: shared.metrics ?? NO_METRICS,
    receivedTopics: ['events.production', 'events.development'],
    options,
  };
  const stages = createPipeline(dependencies);
  return {
    dependencies,
    world,
    time,
    catalog,
    counters,
    notes,
    history,
    liveTail,
    stages,
    run: runner(stages, notes, given),
    /** The outcome in a record, also where the record refers to one that was given to `run`. */
    outcomeOf: (outputRecord: OutputRecord | undefined) => outcomeIn(outputRecord, given),
  };
}

function outcomeIn(
  outputRecord: OutputRecord | undefined,
  given: ReadonlyMap<string, LogEntry>,
): DeliveryOutcome {
  if (outputRecord === undefined) throw new Error('nothing was emitted');
  const reference = readDeliveryReference(outputRecord.value);
  if (reference === undefined) return readOutcome(outputRecord.value);
  const holder = given.get(reference.of);
  if (holder === undefined) throw new Error(`no record was given at ${reference.of}`);
  return referencedOutcome(reference, readDeliveryEntry(holder), START);
}

/** The log's answer to a read of the catalog's topic. */
function factsFrom({ facts }: MemoryCatalog, from: number) {
  const entries = facts.slice(from).map((fact, index) => entryOf(TOPIC.catalog, from + index, fact));
  return { entries, next: facts.length };
}

/**
 * Dispatches entries to a stage as the log would, and checks the output against its declared topics. The counts of
 * the stage are added to `notes`.
 */
function runner(stages: readonly Stage[], notes: StageNote[], given: Map<string, LogEntry>) {
  return async (
    name: string,
    entries: readonly LogEntry[],
    signal = new AbortController().signal,
    end?: () => Promise<number>,
  ): Promise<readonly OutputRecord[]> => {
    const stage = stages.find((one) => one.name === name);
    const { topic, partition } = entries[0]?.position ?? { topic: '', partition: 0 };
    if (stage === undefined) throw new Error(`no stage ${name}`);
    if (!stage.reads.some((source) => source.topic === topic))
      throw new Error(`${name} does not read ${topic}`);
    for (const entry of entries) given.set(formatPosition(entry.position), entry);
    const count = (note: StageNote) => void notes.push(note);
    const outputRecords =
      stage.kind === 'batch'
        ? await stage.process({ topic, partition, entries }, { signal, count, ...(end && { end }) })
        : (await Promise.all(entries.map((entry) => runFlowStage(stage, entry, { signal, count })))).flat();
    for (const { topic: to } of outputRecords) {
      if (!stage.writes.includes(to)) throw new Error(`${name} does not declare ${to}`);
    }
    return outputRecords;
  };
}

export function event(id: string, fields: Partial<CanonicalEvent> = {}): CanonicalEvent {
  return {
    message_id: id,
    type: 'track',
    event: 'Order Placed',
    user_id: 'u1',
    properties: { total: 1 },
    timestamp: '2026-01-01T10:00:00.000Z',
    received_at: '2026-01-01T10:00:00.000Z',
    environment: 'production',
    workspace_id: WORKSPACE,
    ...fields,
  };
}

/** An entry of a topic, as the log dispatches it. */
export function entryOf(
  topic: string,
  offset: number,
  value: object | string,
  headers: Headers = {},
): LogEntry {
  const workspaceId = typeof value === 'object' && 'workspace_id' in value && String(value.workspace_id);
  return {
    key: 'key',
    value: typeof value === 'string' ? value : JSON.stringify(value),
    headers: {
      [HEADER.catalogPosition]: '0',
      ...(workspaceId && { [HEADER.workspaceId]: workspaceId }),
      ...headers,
    },
    position: { topic, partition: 0, offset, index: 0 },
    timestamp: START,
  };
}

/** Offsets above those of the tests: later records refer to a delivery by its position. */
let nextOffset = 1_000_000;

/** An output record as the input of the next stage. */
export function handedOn(outputRecord: OutputRecord | undefined, offset = nextOffset++): LogEntry {
  if (outputRecord === undefined) throw new Error('nothing was emitted');
  const { topic, key, value, headers } = outputRecord;
  return { key, value, headers, position: { topic, partition: 0, offset, index: 0 }, timestamp: START };
}

export function topicsOf(outputRecords: readonly OutputRecord[]): readonly string[] {
  return outputRecords.map(({ topic }) => topic);
}

/** Lets the stages work until the condition holds, within the bound of every poll; otherwise the test fails. */
export async function until(done: () => boolean | Promise<boolean>): Promise<void> {
  await expect.poll(done, { interval: 1 }).toBe(true);
}
