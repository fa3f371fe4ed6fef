import { setTimeout as sleep } from 'node:timers/promises';
import { type EventLog, NO_METRICS, TOPIC, TributaryError } from '@tributary/core';
import {
  type GivenUp,
  givenUp,
  REDRIVE,
  type RedriveOutcome,
  redrive as redriveStage,
} from '@tributary/processors';
import { type Environment, readConfig } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { createLogger } from '../observability/logger.ts';
import { DEV_DEFAULTS } from '../process/dev-defaults.ts';
import { startPatience, whenAvailable } from '../process/patience.ts';
import { makeFolderPrivate } from '../process/private-folder.ts';
import { tellingFaults } from '../process/telling-faults.ts';
import { openSecrets } from '../secrets/secrets.ts';
import { Closing } from '../wiring/closing.ts';
import { checkStores } from '../wiring/installation.ts';
import { openPipeline } from '../wiring/pipeline.ts';
import { openEventLog } from '../wiring/ports/event-log.ts';
import { chosenStages, type StagesOptions } from './stages-option.ts';

const LOOK_EVERY_MS = 200;
const LONGEST_TEXT = 200;

export interface RedriveOptions extends StagesOptions {
  readonly list?: true;
}

/** What became of the records, and why some were given up again. */
interface Redriven {
  readonly outcomes: Map<RedriveOutcome, number>;
  /** The last error of each stage. */
  readonly errors: Map<string, string>;
}

/**
 * `tributary redrive [--stages a,b] [--list]`: hands what stages gave up to them again, beside whatever runs, once
 * whatever made them fail was mended; or says what there is. Code 1 where some of it was given up again. Safe to kill and
 * to run again.
 */
export async function redrive(options: RedriveOptions, environment: Environment): Promise<number> {
  const chosen = chosenStages(options);
  const config = configOf(environment);
  const closing = new Closing();
  return tellingFaults('redrive', async () => {
    try {
      if (options.list === true) {
        process.stdout.write(describeGivenUp(await list(config, closing)));
        return 0;
      }
      return await run(config, chosen, closing);
    } finally {
      await closing.close();
    }
  });
}

/** Where there are no brokers, everything is in the process of `dev`, and this is as free as that one. */
function configOf(environment: Environment): Config {
  const config = readConfig({ LOG_LEVEL: 'warn', ...environment });
  return config.kafkaBrokers.length > 0 ? config : readConfig({ ...DEV_DEFAULTS, ...environment });
}

async function list(config: Config, closing: Closing): Promise<GivenUp> {
  const logger = createLogger(config.logLevel, { part: 'redrive' });
  makeFolderPrivate(config.dataFolder, logger);
  const log = closing.keep(await openEventLog(config, { logger, metrics: NO_METRICS, dropExpired: false }));
  return whenAvailable('reading stages.dead', startPatience(config.startTimeout, logger), () => givenUp(log));
}

async function run(config: Config, chosen: readonly string[] | undefined, closing: Closing): Promise<number> {
  const logger = createLogger(config.logLevel, { part: 'redrive' });
  makeFolderPrivate(config.dataFolder, logger);
  openSecrets(config); // a fault of the keys is told before anything is opened
  const patience = startPatience(config.startTimeout, logger);
  const tools = { logger, metrics: NO_METRICS, dropExpired: false };
  const { log, catalog, counters, pipeline, openProfiles } = await openPipeline(
    config,
    tools,
    patience,
    closing,
  );
  const found = await whenAvailable('reading stages.dead', patience, () => givenUp(log));
  process.stdout.write(describeGivenUp(found));
  const redriven: Redriven = { outcomes: new Map(), errors: new Map() };
  if (found.last.size > 0) {
    closing.keep(await checkStores(config, { catalog, log, logger }, patience, openProfiles));
    const stage = redriveStage({
      stages: pipeline,
      counters,
      clock: Date.now,
      ...(chosen === undefined ? {} : { chosen: new Set(chosen) }),
      last: found.last,
      told: (outcome, record, error) => note(redriven, outcome, record?.stage, error),
    });
    const running = await whenAvailable('running the redrive', patience, () => log.run(stage));
    try {
      await Promise.race([running.ended, passed(log, found)]);
    } finally {
      await running.stop();
    }
  }
  // Also where nothing was found: one that was killed may have left this to do.
  const more = startPatience(config.startTimeout, logger);
  await whenAvailable('dropping what was redriven', more, () => dropPassed(log));
  if (found.last.size > 0) process.stdout.write(describeRedriven(redriven));
  return redriven.errors.size > 0 ? 1 : 0;
}

function note(
  { outcomes, errors }: Redriven,
  outcome: RedriveOutcome,
  stage: string | undefined,
  error: string | undefined,
): void {
  outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  if (stage !== undefined && error !== undefined) errors.set(stage, error);
}

/** Until all that was found was taken, here or by who redrives elsewhere at the same time. */
async function passed(log: EventLog, { last }: GivenUp): Promise<void> {
  const left = new Map(last);
  for (;;) {
    for (const [partition, offset] of left) if (await isPast(log, partition, offset)) left.delete(partition);
    if (left.size === 0) return;
    await sleep(LOOK_EVERY_MS);
  }
}

/** A log that does not answer is waited for: the stage says so, and goes on by itself. */
async function isPast(log: EventLog, partition: number, offset: number): Promise<boolean> {
  try {
    return ((await log.positionOf(REDRIVE, TOPIC.poison, partition)) ?? 0) > offset;
  } catch (error) {
    if (error instanceof TributaryError && error.retryable) return false;
    throw error;
  }
}

/**
 * What was redriven is nobody's any more: where an event is would be answered by it, and Kafka forgets the position of a
 * group that is hardly ever there sooner than the records.
 */
async function dropPassed(log: EventLog): Promise<void> {
  const partitions = log.topics.get(TOPIC.poison)?.partitions ?? 0;
  for (let partition = 0; partition < partitions; partition++) {
    const next = await log.positionOf(REDRIVE, TOPIC.poison, partition);
    if (next !== undefined) await log.dropBelow(TOPIC.poison, partition, next);
  }
}

function describeGivenUp({ stages }: GivenUp): string {
  if (stages.length === 0) return 'stages.dead holds nothing\n';
  const total = stages.reduce((sum, { records }) => sum + records, 0);
  const lines = stages.map(({ stage = '(unreadable)', records, from = '', to = '', error }) =>
    [
      `  ${oneLine(stage).padEnd(14)} ${String(records).padStart(8)}`,
      ...(error === undefined ? [] : [`  ${oneLine(from)} - ${oneLine(to)}  the last: ${oneLine(error)}`]),
    ].join(''),
  );
  return `stages.dead holds ${total} ${total === 1 ? 'record' : 'records'}\n${lines.join('\n')}\n`;
}

function describeRedriven({ outcomes, errors }: Redriven): string {
  const count = (outcome: RedriveOutcome) => outcomes.get(outcome) ?? 0;
  const lines = [
    `${count('redriven')} redriven, ${count('given up')} given up again, ${count('left')} left`,
    ...[...errors].map(([stage, error]) => `  ${oneLine(stage)}: ${oneLine(error)}`),
  ];
  return `${lines.join('\n')}\n`;
}

/** Messages may hold what somebody sent, and a record what whoever may write to the topic put there. */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, LONGEST_TEXT);
}
