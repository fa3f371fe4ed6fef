import { receivedTopic, TOPIC } from '@tributary/core';
import type { Client } from '../helpers/client.ts';
import { benchContract, benchEvent, benchNames, sendBacklog } from './event.ts';
import type { Installation, Wiring } from './installation.ts';
import { type BenchGateway, countEntries, startGateway } from './installation.ts';
import { startProcess } from './process.ts';
import { type BenchRow, median, perSecond } from './table.ts';

const VALIDATE_BAR = 0.5;
const ROUTE_BAR = 0.35;
/**
 * Below 1 because two measurements of the same differ by some percent, and the tables of a thousand contracts
 * do not fit a cache.
 */
const MANY_CONTRACTS_BAR = 0.9;

const FEW = 4;
const MANY = 1_000;

/** The task of `stage-process.ts`. */
export interface StageTask {
  readonly stage: 'validate' | 'route';
  readonly receivedTopics: readonly string[];
  /** The target of the baseline, a bare copy of the stage's input. */
  readonly copyTo?: string;
  /** The baseline: the same stage over another backlog of as many events. */
  readonly otherTopics?: readonly string[];
  readonly events: number;
  readonly rounds: number;
}

/** The resources used to work off the backlog once. */
export interface Took {
  readonly seconds: number;
  /** Processor time of the process with all its threads, without its children. */
  readonly cpuSeconds: number;
}

/** One entry for each round. */
export interface StageTimes {
  readonly stage: Took[];
  /** The runs of the baseline; empty when the task names none. */
  readonly baseline: Took[];
}

interface StageRowOptions {
  readonly wiring: Wiring;
  readonly events: number;
  readonly rounds: number;
}

const RECEIVED = [receivedTopic('production')];

/** Events a second of one process through validate, every event under one of a few contracts. */
export async function validateRow(options: StageRowOptions): Promise<BenchRow> {
  const task = { stage: 'validate', receivedTopics: RECEIVED, copyTo: TOPIC.accepted } as const;
  const names = benchNames(FEW);
  return onBacklog(options, async (installation, { owner, producer }) => {
    await makeContracts(owner, names);
    await sendBacklog(producer, options.events, names);
    return async (events, rounds) => {
      const times = await work(installation, { ...task, events, rounds });
      const accepted = await countEntries(installation, TOPIC.accepted);
      const missing = 2 * rounds * events - accepted;
      return { times, path: `validate (${FEW} contracts)`, against: 'copy', bar: VALIDATE_BAR, missing };
    };
  });
}

/**
 * Events a second of one process through validate, every event under one of a thousand contracts, against the same with
 * every event under one of a few.
 */
export async function manyContractsRow(options: StageRowOptions): Promise<BenchRow> {
  const otherTopics = [receivedTopic('development')];
  const task = { stage: 'validate', receivedTopics: RECEIVED, otherTopics } as const;
  const [few, many] = [benchNames(FEW), benchNames(MANY)];
  return onBacklog(options, async (installation, { owner, producer }) => {
    await makeContracts(owner, many);
    const asked = { name: 'bench', environment: 'development' };
    const { key } = await owner.post<{ key: string }>('./event-keys', asked);
    await sendBacklog(producer, options.events, many);
    await sendBacklog(owner.with({ token: key }), options.events, few);
    return async (events, rounds) => {
      const times = await work(installation, { ...task, events, rounds });
      const missing = 2 * rounds * events - (await countEntries(installation, TOPIC.accepted));
      const path = `validate (${MANY.toLocaleString('en')} contracts)`;
      return { times, path, against: `${FEW} contracts`, bar: MANY_CONTRACTS_BAR, missing };
    };
  });
}

/** Events a second of one process through route, every event through one transformation. */
export async function routeRow(options: StageRowOptions): Promise<BenchRow> {
  const task = { stage: 'route', receivedTopics: RECEIVED, copyTo: TOPIC.deliveries } as const;
  return onBacklog(options, async (installation, { owner, producer }) => {
    await makeRule(owner);
    await sendBacklog(producer, options.events, benchNames(FEW));
    return async (events, rounds) => {
      await work(installation, { stage: 'validate', receivedTopics: RECEIVED, events, rounds: 1 });
      const times = await work(installation, { ...task, events, rounds });
      const [routed, slow] = [
        await countEntries(installation, TOPIC.deliveries),
        await countEntries(installation, TOPIC.eventsSlow),
      ];
      const missing = 2 * rounds * events - routed - slow;
      return { times, path: 'route (1 transformation)', against: 'copy', bar: ROUTE_BAR, missing };
    };
  });
}

interface Measured {
  readonly times: StageTimes;
  readonly path: string;
  readonly against: string;
  readonly bar: number;
  readonly missing: number;
}

type Measure = (events: number, rounds: number) => Promise<Measured>;

/** Creates a thousand contracts at once, more than a tenant may. */
const MANY_CHANGES = { TRIBUTARY_CHANGE_RATE: '100000', TRIBUTARY_CHANGE_RATE_PER_ACCOUNT: '100000' };

/**
 * `prepare` fills an installation while its gateway runs. The bench then measures the returned subject
 * without a gateway.
 */
async function onBacklog(
  { wiring, events, rounds }: StageRowOptions,
  prepare: (installation: Installation, gateway: BenchGateway) => Promise<Measure>,
): Promise<BenchRow> {
  const installation = wiring.install(MANY_CHANGES);
  try {
    const gateway = await startGateway(installation);
    const measure = await prepare(installation, gateway).finally(() => gateway.stop());
    // The first round warms up.
    const { times, path, against, bar, missing } = await measure(events, rounds + 1);
    const stage = times.stage.slice(1);
    const baseline = times.baseline.slice(1);
    const ratio = median(
      stage.map(({ seconds }, round) => (baseline[round]?.seconds ?? Number.NaN) / seconds),
    );
    const rate = (took: readonly Took[]) => perSecond(events / median(took.map(({ seconds }) => seconds)));
    const cpu = (took: readonly Took[]) =>
      ((median(took.map(({ cpuSeconds }) => cpuSeconds)) * 1e6) / events).toFixed(1);
    return {
      path: `${path}, ${wiring.name}`,
      figure: rate(stage),
      baseline: `${against} ${rate(baseline)}`,
      ratio,
      bar: `>= ${bar}`,
      holds: ratio >= bar && missing === 0,
      note: `${events.toLocaleString('en')} events a round, ${missing} missing; CPU an event: ${cpu(stage)} us, ${against} ${cpu(baseline)} us`,
    };
  } finally {
    await installation.remove();
  }
}

async function work({ env }: Installation, task: StageTask): Promise<StageTimes> {
  const { hello, stop } = await startProcess<StageTimes>('./stage-process.ts', env, [JSON.stringify(task)]);
  await stop();
  return hello;
}

async function makeContracts(owner: Client, names: readonly string[]): Promise<void> {
  for (const [n, name] of names.entries()) await owner.post('./event-contracts', benchContract(name, n));
}

async function makeRule(owner: Client): Promise<void> {
  const example = { type: 'track', user_id: 'u', ...benchEvent(1) };
  const total = { ...example, properties: { price: 2, quantity: 3 } };
  const { id: transformation_id } = await owner.post<{ id: string }>('./event-transformations', {
    name: 'total',
    source_code:
      'function transform(event) { event.properties.total = event.properties.price * event.properties.quantity; return event; }',
    test_input: total,
    test_output: { ...total, properties: { price: 2, quantity: 3, total: 6 } },
  });
  const { id: destination_id } = await owner.post<{ id: string }>('./destinations', {
    name: 'files',
    type: 'ndjson',
    settings: { folder: 'bench' },
  });
  await owner.post('./event-forwarding-rules', {
    name: 'all',
    destination_id,
    event_types: ['track'],
    event_names: [],
    transformation_id,
    enabled: true,
  });
}
