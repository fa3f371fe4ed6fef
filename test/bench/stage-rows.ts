import { receivedTopic, TOPIC } from '@tributary/core';
import type { Client } from '../helpers/client.ts';
import { sendBacklog } from './backlog.ts';
import { benchContract, benchNames } from './contracts.ts';
import { countEntries } from './count-entries.ts';
import { benchEvent } from './event.ts';
import { startGateway } from './gateway.ts';
import type { Installation, Wiring } from './installation.ts';
import { startProcess } from './process.ts';
import { type BenchRow, median, perSecond } from './table.ts';

const VALIDATE_BAR = 0.5;
const ROUTE_BAR = 0.35;

/** What `stage-process.ts` is to do. */
export interface StageTask {
  readonly stage: 'validate' | 'route';
  readonly receivedTopics: readonly string[];
  /** Where the copy of what the stage reads goes; absent: no copy. */
  readonly copyTo?: string;
  readonly events: number;
  readonly rounds: number;
}

/** What one working off of the backlog took. */
export interface Took {
  readonly seconds: number;
  /** Of processor time, of the process with all its threads, without its children. */
  readonly cpuSeconds: number;
}

/** One a round. */
export interface StageTimes {
  readonly stage: Took[];
  readonly copy: Took[];
}

interface StageRowOptions {
  readonly wiring: Wiring;
  readonly events: number;
  readonly rounds: number;
}

const RECEIVED = [receivedTopic('production')];

/** Events a second of one process through validate, every event under one of as many contracts. */
export async function validateRow(options: StageRowOptions, contracts: number): Promise<BenchRow> {
  const task = { stage: 'validate', receivedTopics: RECEIVED, copyTo: TOPIC.accepted } as const;
  const names = benchNames(contracts);
  const prepare = (owner: Client) => makeContracts(owner, names);
  return measure({ ...options, names }, prepare, async (installation, events, rounds) => {
    const times = await work(installation, { ...task, events, rounds });
    const accepted = await countEntries(installation, TOPIC.accepted);
    return {
      times,
      path: `validate (${contracts.toLocaleString('en')} contracts)`,
      bar: VALIDATE_BAR,
      missing: 2 * rounds * events - accepted,
    };
  });
}

/** Events a second of one process through route, every event through one transformation. */
export async function routeRow(options: StageRowOptions): Promise<BenchRow> {
  const task = { stage: 'route', receivedTopics: RECEIVED, copyTo: TOPIC.deliveries } as const;
  return measure({ ...options, names: benchNames(4) }, makeRule, async (installation, events, rounds) => {
    await work(installation, { stage: 'validate', receivedTopics: RECEIVED, events, rounds: 1 });
    const times = await work(installation, { ...task, events, rounds });
    const [routed, slow] = [
      await countEntries(installation, TOPIC.deliveries),
      await countEntries(installation, TOPIC.eventsSlow),
    ];
    const missing = 2 * rounds * events - routed - slow;
    return { times, path: 'route (1 transformation)', bar: ROUTE_BAR, missing };
  });
}

interface Measured {
  readonly times: StageTimes;
  readonly path: string;
  readonly bar: number;
  readonly missing: number;
}

async function measure(
  { wiring, events, rounds, names }: StageRowOptions & { readonly names: readonly string[] },
  prepare: (owner: Client) => Promise<void>,
  run: (installation: Installation, events: number, rounds: number) => Promise<Measured>,
): Promise<BenchRow> {
  const installation = wiring.install();
  try {
    const gateway = await startGateway(installation);
    try {
      await prepare(gateway.owner);
      await sendBacklog(gateway.producer, events, names);
    } finally {
      await gateway.stop();
    }
    // The first round warms up.
    const { times, path, bar, missing } = await run(installation, events, rounds + 1);
    const [stage, copy] = [times.stage.slice(1), times.copy.slice(1)];
    const ratio = median(stage.map(({ seconds }, round) => (copy[round]?.seconds ?? Number.NaN) / seconds));
    const rate = (took: readonly Took[]) => perSecond(events / median(took.map(({ seconds }) => seconds)));
    const cpu = (took: readonly Took[]) =>
      ((median(took.map(({ cpuSeconds }) => cpuSeconds)) * 1e6) / events).toFixed(0);
    return {
      path: `${path} on Kafka`,
      figure: rate(stage),
      baseline: `copy ${rate(copy)}`,
      ratio,
      bar: `>= ${bar}`,
      holds: ratio >= bar && missing === 0,
      note: `${events.toLocaleString('en')} events a round, ${missing} missing; CPU an event: ${cpu(stage)} us, copy ${cpu(copy)} us`,
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
