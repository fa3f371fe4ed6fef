import { setTimeout as sleep } from 'node:timers/promises';
import { type EventLog, NO_METRICS, TOPIC, TributaryError } from '@tributary/core';
import {
  type DeadLetters,
  REDRIVE,
  type RedriveOutcome,
  readDeadLetters,
  redrive as redriveStage,
} from '@tributary/processors';
import { chosenStages, type StagesOptions } from '../runtime/commands/stages-option.ts';
import { type Environment, readCommandConfig } from '../runtime/config/config.ts';
import { startDeadline, untilAvailable } from '../runtime/process/await-engines.ts';
import { useFolderOfServer } from '../runtime/process/data-folder.ts';
import { checkStores } from '../runtime/wiring/installation.ts';
import { openPipeline } from '../runtime/wiring/pipeline.ts';
import { openCatalogOfCommand } from '../runtime/wiring/ports/event-log.ts';
import { openSecrets } from '../runtime/wiring/secrets.ts';
import { type CommandTools, counted, openLogOf, runCommand } from './command.ts';

const POLL_EVERY_MS = 200;
const LONGEST_TEXT = 200;

export interface RedriveOptions extends StagesOptions {
  readonly list?: true;
}

/** Outcomes of the redriven records. */
interface Redriven {
  readonly outcomes: Map<RedriveOutcome, number>;
  /** The last error of each stage. */
  readonly errors: Map<string, string>;
}

/**
 * `tributary redrive [--stages a,b] [--list]`: lets stages process their dead-lettered entries again, once the cause of the
 * failure is fixed; or lists them. Runs beside other processes, and may be killed and repeated. Exit code 1 if some entries
 * were dead-lettered again.
 */
export async function redrive(options: RedriveOptions, environment: Environment): Promise<number> {
  const chosen = chosenStages(options);
  return runCommand('redrive', readCommandConfig(environment), async (tools) => {
    useFolderOfServer(tools.config, tools.logger);
    if (options.list !== true) return run(tools, chosen);
    process.stdout.write(describeGivenUp(await list(tools)));
    return 0;
  });
}

async function list(tools: CommandTools): Promise<DeadLetters> {
  const { deadline } = tools;
  const log = await openLogOf(tools);
  // The topic may have been grown.
  if (log.followLayouts !== undefined) await (await openCatalogOfCommand(log, deadline)).close();
  return untilAvailable('reading stages.dead', deadline, () => readDeadLetters(log));
}

async function run(
  { config, logger, cleanup, deadline }: CommandTools,
  chosen: readonly string[] | undefined,
): Promise<number> {
  openSecrets(config); // reports faults of the keys before anything is opened
  const { log, catalog, pipeline, openProfiles } = await openPipeline(
    config,
    { logger, metrics: NO_METRICS, dropExpired: false },
    deadline,
    cleanup,
  );
  const found = await untilAvailable('reading stages.dead', deadline, () => readDeadLetters(log));
  process.stdout.write(describeGivenUp(found));
  const redriven: Redriven = { outcomes: new Map(), errors: new Map() };
  if (found.last.size > 0) {
    cleanup.use(await checkStores(config, { catalog, log, logger }, deadline, openProfiles));
    const stage = redriveStage({
      stages: pipeline,
      clock: Date.now,
      ...(chosen === undefined ? {} : { chosen: new Set(chosen) }),
      last: found.last,
      report: (outcome, record, error) => note(redriven, outcome, record?.stage, error),
    });
    const running = await untilAvailable('running the redrive', deadline, () => log.run(stage));
    try {
      await Promise.race([running.ended, passed(log, found)]);
    } finally {
      await running.stop();
    }
  }
  // Also if nothing was found: an earlier redrive may have been killed before this step.
  const more = startDeadline(config.startTimeoutMs, logger);
  await untilAvailable('dropping what was redriven', more, () => dropPassed(log));
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

/** Waits until all records found are processed, by this process or by a concurrent redrive. */
async function passed(log: EventLog, { last }: DeadLetters): Promise<void> {
  const left = new Map(last);
  for (;;) {
    for (const [partition, offset] of left) if (await isPast(log, partition, offset)) left.delete(partition);
    if (left.size === 0) return;
    await sleep(POLL_EVERY_MS);
  }
}

/** False while the log does not answer: the stage reports that, and continues by itself. */
async function isPast(log: EventLog, partition: number, offset: number): Promise<boolean> {
  try {
    return ((await log.positionOf(REDRIVE, TOPIC.poison, partition)) ?? 0) > offset;
  } catch (error) {
    if (error instanceof TributaryError && error.retryable) return false;
    throw error;
  }
}

/**
 * Drops redriven records from the topic: else the trace of an event would still find them, and Kafka may expire the
 * position of this seldom active group before the records.
 */
async function dropPassed(log: EventLog): Promise<void> {
  const partitions = log.topics.get(TOPIC.poison)?.partitions ?? 0;
  for (let partition = 0; partition < partitions; partition++) {
    const next = await log.positionOf(REDRIVE, TOPIC.poison, partition);
    if (next !== undefined) await log.dropBelow(TOPIC.poison, partition, next);
  }
}

function describeGivenUp({ stages }: DeadLetters): string {
  if (stages.length === 0) return 'stages.dead holds nothing\n';
  const total = stages.reduce((sum, { records }) => sum + records, 0);
  const lines = stages.map(({ stage = '(unreadable)', records, from = '', to = '', error }) =>
    [
      `  ${oneLine(stage).padEnd(14)} ${String(records).padStart(8)}`,
      ...(error === undefined ? [] : [`  ${oneLine(from)} - ${oneLine(to)}  the last: ${oneLine(error)}`]),
    ].join(''),
  );
  return `stages.dead holds ${counted(total, 'record')}\n${lines.join('\n')}\n`;
}

function describeRedriven({ outcomes, errors }: Redriven): string {
  const count = (outcome: RedriveOutcome) => outcomes.get(outcome) ?? 0;
  const lines = [
    `${count('redriven')} redriven, ${count('failed')} failed again, ${count('left')} left`,
    ...[...errors].map(([stage, error]) => `  ${oneLine(stage)}: ${oneLine(error)}`),
  ];
  return `${lines.join('\n')}\n`;
}

/** Makes untrusted text printable: error messages may quote input, and records may contain anything. */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, LONGEST_TEXT);
}
