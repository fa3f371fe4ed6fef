import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { TOPIC } from '@tributary/core';
import { engines } from '../helpers/engines.ts';
import { withAdmin } from '../helpers/kafka.ts';
import { ServerProcess } from '../helpers/server-process.ts';
import type { Dice } from './dice.ts';
import { GATEWAYS, type Installation, PROCESSORS } from './installation.ts';
import type { Form, Run } from './run.ts';
import type { Finding } from './verify.ts';

interface Faults {
  /** Of each gateway and processor. */
  readonly kills: number;
  readonly pauses: number;
  /** One more processor joins, and leaves cleanly while events flow. */
  readonly joins: number;
  /** The restarts of Kafka, in this order; Redis is killed once. */
  readonly kafkaRestarts: readonly ('kill' | 'stop')[];
}

const SESSION_TIMEOUT_MS = 4_000;

/** Everything that can be killed is killed, at any time. */
const chaos = (faults: Faults): Pick<Form, 'name' | 'installation' | 'troubles'> => ({
  name: 'chaos',
  installation: { partitions: 4, sessionTimeoutMs: SESSION_TIMEOUT_MS },
  troubles: (run) => makeTroubles(drawSchedule(faults, run.dice), run),
});

/** For every run of the suite. */
export const SHORT: Form = {
  ...chaos({ kills: 1, pauses: 1, joins: 1, kafkaRestarts: ['kill'] }),
  events: 10_000,
  rate: 1_000,
  drainWithinMs: 120_000,
};

/** For `npm run test:full` and `npm run chaos`. */
export const LONG: Form = {
  ...chaos({ kills: 4, pauses: 2, joins: 2, kafkaRestarts: ['stop', 'kill'] }),
  events: 201_000,
  rate: 1_000,
  drainWithinMs: 600_000,
};

/** One fault, triggered once this share of the events is confirmed. */
interface Trouble {
  readonly at: number;
  readonly what: string;
  /** No other begins before it is over. */
  readonly isAwaited?: true;
  readonly make: (installation: Installation) => unknown;
}

/**
 * Draws the list of faults, in order. They may fall anywhere and overlap; the last one is a kill during the drain.
 */
function drawSchedule({ kills, pauses, joins, kafkaRestarts }: Faults, dice: Dice): readonly Trouble[] {
  const anywhere = () => dice.between(0.03, 0.97);
  const kill = (at: number, name: string): Trouble => ({
    at,
    what: `SIGKILL ${name}`,
    make: (on) => on.process(name).kill(),
  });
  const restart = (at: number, engine: 'kafka' | 'redis', how: 'kill' | 'stop'): Trouble => ({
    at,
    what: `${how === 'kill' ? 'SIGKILL' : 'SIGTERM'} ${engine}, and start again`,
    isAwaited: true,
    async make(on) {
      if (how === 'kill') await on[engine].kill();
      await on[engine].restart();
    },
  });
  const troubles = [...GATEWAYS, ...PROCESSORS].flatMap((name) =>
    Array.from({ length: kills }, () => kill(anywhere(), name)),
  );
  for (let i = 0; i < pauses; i++) {
    const forMs = Math.round(SESSION_TIMEOUT_MS * dice.between(1.5, 2.5));
    const name = dice.pick(PROCESSORS);
    const what = `SIGSTOP ${name} for ${forMs} ms`;
    troubles.push({ at: anywhere(), what, make: (on) => on.process(name).pause(forMs) });
  }
  for (let i = 0; i < joins; i++) {
    // The joins do not overlap: each has its own part of the run.
    const part = (share: number) => (i + share) / joins;
    const [joinAt, leaveAt] = [part(dice.between(0.05, 0.45)), part(dice.between(0.55, 0.95))];
    troubles.push({ at: joinAt, what: 'one more processor', make: (on) => on.add('processor-4') });
    troubles.push({ at: leaveAt, what: 'SIGTERM to that one', make: (on) => on.take('processor-4') });
  }
  kafkaRestarts.forEach((how, i) => {
    troubles.push(restart((i + dice.between(0.2, 0.8)) / kafkaRestarts.length, 'kafka', how));
  });
  troubles.push(restart(anywhere(), 'redis', 'kill'));
  troubles.push(kill(1, dice.pick(PROCESSORS)));
  return troubles.sort((a, b) => a.at - b.at);
}

async function makeTroubles(troubles: readonly Trouble[], { installation, until, tell }: Run): Promise<void> {
  const underWay: Promise<unknown>[] = [];
  for (const trouble of troubles) {
    await until(trouble.at);
    tell(`${(trouble.at * 100).toFixed(0).padStart(3)} %  ${trouble.what}`);
    const done = Promise.resolve(trouble.make(installation));
    done.catch(() => {}); // awaited below
    if (trouble.isAwaited === true) await done;
    underWay.push(done);
  }
  await Promise.all(underWay);
  await installation.becomesReady();
}

/** A rolling restart of all processes, a restart of the broker, and a growth of all topics, as an operator does them. */
export const OPERATIONS: Form = {
  name: 'operations',
  events: 201_000,
  rate: 1_000,
  drainWithinMs: 600_000,
  installation: {
    partitions: 4,
    sessionTimeoutMs: 10_000,
    // How long the growth waits between its announcement and its adoption.
    env: { TRIBUTARY_CATALOG_STALENESS: '10s' },
  },
  pickedBy: 'filter',
  earlier: [4],
  async troubles(run) {
    const { installation, until, tell } = run;
    await until(0.15);
    for (const name of [...GATEWAYS, ...PROCESSORS]) await installation.process(name).restart();
    tell('restarted all processes, one after the other');
    await until(0.45);
    await installation.kafka.restart();
    tell('restarted the broker');
    await until(0.65);
    await command(run, ['topics', '--partitions', '8']);
  },
};

const [FIRST, SECOND, THIRD] = [4, 12, 24];
/** Topics that are grown by Kafka's own tool, and adopted. */
const GROWN_BY_TOOL = ['events.production', TOPIC.accepted, TOPIC.deliveries];
/** How long the command may take to announce a growth, on a busy machine, ms. */
const COMMAND_WITHIN_MS = 300_000;

/**
 * Grows all topics from 4 to 12 partitions, and three of them to 24 by Kafka's own tool and by adoption, while gateways,
 * processors and the command itself are killed.
 */
export const GROWTH: Form = {
  name: 'growth',
  events: 60_000,
  rate: 300,
  drainWithinMs: 600_000,
  installation: {
    shared: engines(),
    partitions: FIRST,
    // Long enough that a busy machine loses no members by itself.
    sessionTimeoutMs: 15_000,
    // Those that each event passes, their slow queues, and those whose answers are verified.
    stages: 'validate,validate.slow,route,route.slow,deliver,deliver.slow,deliver.retry,history,funnel',
    env: { TRIBUTARY_CATALOG_STALENESS: '5s' },
  },
  pickedBy: 'filter',
  earlier: [FIRST, SECOND],
  troubles: grow,
  findings: async (installation) => [await usedFinding(installation), warnedFinding(installation)],
};

/** Kills before, during and after each growth. */
async function grow(run: Run): Promise<void> {
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
  await command(run, ['topics', '--partitions', GROWN_BY_TOOL.map((topic) => `${topic}=${THIRD}`).join(',')]);
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
