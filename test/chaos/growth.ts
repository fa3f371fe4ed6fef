import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { TOPIC } from '@tributary/core';
import { engines } from '../helpers/engines.ts';
import { withAdmin } from '../helpers/kafka.ts';
import { ServerProcess } from '../helpers/server-process.ts';
import { Dice } from './dice.ts';
import { drained } from './drain.ts';
import { gather } from './evidence.ts';
import { longestStandstills } from './handover.ts';
import type { Installation } from './installation.ts';
import { type Sample, watchPositions } from './positions.ts';
import { produce, type SendingFigures } from './producers.ts';
import { type FailingReceiver, startFailingReceiver } from './receiver.ts';
import { runOnInstallation } from './report.ts';
import { GATEWAYS, PROCESSORS } from './schedule.ts';
import { repeatFlights, shareOut } from './traffic.ts';
import { type Finding, verify } from './verify.ts';
import { prepareChaosWorkspace } from './workspace.ts';

export interface GrowthOptions {
  readonly seed: number;
  readonly events: number;
  /** Events sent in a second at most. */
  readonly rate: number;
  readonly drainWithinMs: number;
}

const [FIRST, SECOND, THIRD] = [4, 12, 24];
const PRODUCERS = 8;
/** Long enough that a busy machine loses no members by itself. */
const SESSION_TIMEOUT_MS = 15_000;
/** Those that each event passes, their slow queues, and those whose answers are verified. */
const STAGES = 'validate,validate.slow,route,route.slow,deliver,deliver.slow,deliver.retry,history,funnel';
/** Topics that are grown by Kafka's own tool, and adopted. */
const GROWN_BY_TOOL = ['events.production', TOPIC.accepted, TOPIC.deliveries];
/** How long the command may take to announce a growth, on a busy machine, ms. */
const COMMAND_WITHIN_MS = 300_000;
/** The period that counts as being around an adoption, ms. */
const AROUND_MS = 15_000;
/** A moved partition may stand still for so long, ms. */
const STANDSTILL_MS = 2_000;

interface Run {
  readonly installation: Installation;
  readonly samples: readonly Sample[];
  /** Resolves once this share of the events is confirmed. */
  readonly until: (share: number) => Promise<void>;
  readonly tell: (line: string) => void;
}

/**
 * Grows all topics from 4 to 12 partitions, and three of them to 24 by Kafka's own tool and by adoption, while events
 * flow and gateways, processors and the command itself are killed. Verifies that each event is once wherever it belongs,
 * in the order of its subject, and reports how long partitions stood still.
 */
export async function runGrowth(
  options: GrowthOptions,
  tell: (line: string) => void,
): Promise<readonly Finding[]> {
  const receiver = await startFailingReceiver(new Dice(options.seed));
  tell(`seed ${options.seed} (TRIBUTARY_CHAOS_SEED), ${options.events.toLocaleString('en')} events`);
  const shared = engines();
  try {
    return await runOnInstallation(
      'growth',
      {
        ...(shared && { shared }),
        processors: PROCESSORS.length,
        partitions: FIRST,
        sessionTimeoutMs: SESSION_TIMEOUT_MS,
        stages: STAGES,
        // How long the command waits between announcement and adoption.
        env: { TRIBUTARY_CATALOG_STALENESS: '5s' },
      },
      tell,
      (installation) => grow(installation, receiver, options, tell),
    );
  } finally {
    await receiver.close();
  }
}

async function grow(
  installation: Installation,
  receiver: FailingReceiver,
  { seed, events: count, rate, drainWithinMs }: GrowthOptions,
  tell: (line: string) => void,
): Promise<readonly Finding[]> {
  const workspace = await prepareChaosWorkspace(await installation.person(), receiver.url, 'filter');
  const events = repeatFlights(count);
  const figures: SendingFigures = { confirmed: 0, duplicates: 0, answers: new Map(), slowestMs: 0 };
  const watching = new AbortController();
  const failed = new AbortController();
  const { workspaceId, writeKey } = workspace;
  const gateways = installation.gateways;
  const dice = new Dice(seed);
  const sending = produce(
    shareOut(events, PRODUCERS),
    { gateways, workspaceId, writeKey, rate, dice, patienceMs: 180_000 },
    figures,
  );
  sending.catch(() => failed.abort());
  const { samples, ended } = await watchPositions(
    installation.kafka.url,
    installation.prefix,
    watching.signal,
  );
  const until = async (share: number) => {
    while (figures.confirmed < share * events.length && !failed.signal.aborted) await sleep(50);
  };
  await Promise.all([sending, troubles({ installation, samples, until, tell })]);
  tell(
    `answers to batches: ${[...figures.answers].map(([answer, times]) => `${answer} ${times} times`).join(', ')}; the slowest was confirmed after ${Math.round(figures.slowestMs)} ms; ${figures.duplicates} events were sent again`,
  );
  tell(`drained ${Math.round(await drained(installation, drainWithinMs))} ms later`);
  watching.abort();
  await ended;
  return [
    ...verify(events, await gather(installation, workspace, receiver.ids), workspace.ruleIds, [
      FIRST,
      SECOND,
    ]),
    await usedFinding(installation),
    warnedFinding(installation),
  ];
}

/** Kills before, during and after each growth; a period without kills around an adoption is measured. */
async function troubles(run: Run): Promise<void> {
  const { installation, until, tell } = run;
  const kill = (name: string) => {
    tell(`kills ${name}`);
    installation.process(name).kill();
  };
  await until(0.06);
  kill(PROCESSORS[0]);
  await until(0.12);
  await killedCommand(run, ['topics', '--partitions', String(SECOND)]);
  kill(GATEWAYS[0]);
  await until(0.16);
  const growing = command(run, ['topics', '--partitions', String(SECOND)]);
  await sleep(2_000);
  kill(PROCESSORS[1]);
  kill(GATEWAYS[1]);
  await growing;
  kill(PROCESSORS[2]);
  await until(0.34);
  kill(PROCESSORS[0]);
  await until(0.42);
  await withAdmin(installation.kafka.url, (admin) =>
    admin.createPartitions({
      topicPartitions: GROWN_BY_TOOL.map((topic) => ({
        topic: `${installation.prefix}${topic}`,
        count: THIRD,
      })),
    }),
  );
  tell(`Kafka's own tool has made ${THIRD} partitions of ${GROWN_BY_TOOL.join(', ')}`);
  await until(0.46);
  // It starts with more partitions in Kafka than are used, and warns.
  kill(PROCESSORS[1]);
  kill(GATEWAYS[0]);
  await until(0.6);
  const from = performance.now();
  await command(run, ['topics', '--partitions', GROWN_BY_TOOL.map((topic) => `${topic}=${THIRD}`).join(',')]);
  await sleep(AROUND_MS);
  tellStandstills(run, from);
  await until(0.85);
  kill(PROCESSORS[2]);
  kill(GATEWAYS[1]);
  await until(0.95);
  kill(PROCESSORS[0]);
}

/** Runs a command of `tributary` beside the processes. */
async function command({ installation, tell }: Run, args: readonly string[]): Promise<void> {
  const process = new ServerProcess(args, { ...installation.environment, LOG_LEVEL: 'warn' });
  const code = await process.ended();
  for (const line of process.output.split('\n'))
    if (/^(added|waiting|grown)/.test(line)) tell(`tributary: ${line}`);
  if (code !== 0) throw new Error(`tributary ${args.join(' ')} ended with ${code}: ${process.log}`);
}

/** The same, with a SIGKILL when it has announced the growth. */
async function killedCommand({ installation, tell }: Run, args: readonly string[]): Promise<void> {
  const process = new ServerProcess(args, { ...installation.environment, LOG_LEVEL: 'warn' });
  for (const from = performance.now(); !/^waiting/m.test(process.output); await sleep(50))
    if (performance.now() - from > COMMAND_WITHIN_MS) throw new Error(`no announcement: ${process.log}`);
  await process.kill();
  tell(`kills tributary ${args.join(' ')} between announcement and adoption`);
}

function tellStandstills({ samples, tell }: Run, from: number): void {
  const to = performance.now();
  const old = samples.filter(({ partition }) => partition < SECOND);
  for (const [what, of] of [
    ['all partitions', samples],
    ['partitions that were there before', old],
  ] as const) {
    const found = longestStandstills(of, from, to);
    const longest = found.map(({ stage, partition, ms }) => `${stage}/${partition} ${Math.round(ms)} ms`);
    tell(`longest standstill with a lag around the adoption, ${what}: ${longest.join(', ') || 'none'}`);
    const over = found.filter(({ ms }) => ms > STANDSTILL_MS);
    if (over.length > 0) tell(`of these above ${STANDSTILL_MS} ms: ${over.length}`);
  }
}

/** Added partitions have records. */
async function usedFinding({ kafka, prefix }: Installation): Promise<Finding> {
  const used = await withAdmin(kafka.url, (admin) =>
    Promise.all(
      GROWN_BY_TOOL.map(async (topic) => {
        const offsets = await admin.fetchTopicOffsets(`${prefix}${topic}`);
        return offsets.filter(({ partition, high }) => partition >= FIRST && Number(high) > 0).length;
      }),
    ),
  );
  const unused = used.flatMap((count, i) => (count > 0 ? [] : [`${GROWN_BY_TOOL[i]} does not use any`]));
  return {
    what: 'topics that use added partitions',
    answer: used.length - unused.length,
    expected: 3,
    faults: unused,
  };
}

/** A process that started beside unused partitions has warned of them. */
function warnedFinding({ folder }: Installation): Finding {
  const log = readFileSync(join(folder, `${PROCESSORS[1]}.log`), 'utf8');
  const warned = GROWN_BY_TOOL.filter((topic) =>
    log.includes(`${topic} has ${THIRD} partitions in Kafka and Tributary uses ${SECOND}`),
  );
  return { what: 'topics warned of', answer: warned.length, expected: GROWN_BY_TOOL.length, faults: [] };
}
