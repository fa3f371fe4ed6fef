import { NO_METRICS } from '@tributary/core';
import { STAGE_NAMES } from '@tributary/processors/stages';
import { InvalidArgumentError } from 'commander';
import type { KafkaLog, KnownPosition } from '../adapters/event-log/kafka/index.ts';
import { type Environment, readKafkaCommandConfig } from '../runtime/config/config.ts';
import { untilAvailable } from '../runtime/process/await-engines.ts';
import { openCatalogOfCommand, openOnKafka } from '../runtime/wiring/ports/event-log.ts';
import { print, runCommand, tableText } from './command.ts';

export interface PositionsOptions {
  readonly stage?: string;
  readonly topic?: string;
  readonly partition?: string;
  readonly to?: string;
}

/** The position at which a stage is to continue. */
type Target = 'first' | 'end' | { readonly offset: number } | { readonly at: number };

interface Choice {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number | undefined;
  readonly to: Target;
}

/**
 * `tributary positions`: prints the positions of the stages, by their consumer groups and by their own records. With
 * `--stage S --topic T --to first|end|<offset>|<time> [--partition n]` it sets the position of partitions whose position is
 * lost; running processes, which wait for it, poll every two seconds. Partitions with a position are not changed. Exit code
 * 1 if no position was set.
 */
export async function positions(options: PositionsOptions, environment: Environment): Promise<number> {
  const choice = choiceOf(options);
  const config = readKafkaCommandConfig(environment);
  return runCommand('positions', config, async ({ logger, cleanup, deadline }) => {
    const log = cleanup.use(await openOnKafka(config, { logger, metrics: NO_METRICS }));
    await (await openCatalogOfCommand(log, deadline)).close();
    const known = () => log.positionsOf(STAGE_NAMES);
    if (choice !== undefined) return set(log, choice);
    process.stdout.write(table(await untilAvailable('reading the positions', deadline, known)));
    return 0;
  });
}

function choiceOf({ stage, topic, partition, to }: PositionsOptions): Choice | undefined {
  if (stage === undefined && topic === undefined && partition === undefined && to === undefined)
    return undefined;
  if (stage === undefined || topic === undefined || to === undefined)
    throw new InvalidArgumentError('--stage, --topic and --to go together');
  if (!STAGE_NAMES.some((name) => name === stage)) throw new InvalidArgumentError(`no stage "${stage}"`);
  if (partition !== undefined && !/^\d{1,6}$/.test(partition))
    throw new InvalidArgumentError('--partition is a number');
  return {
    stage,
    topic,
    partition: partition === undefined ? undefined : Number(partition),
    to: targetOf(to),
  };
}

function targetOf(to: string): Target {
  if (to === 'first' || to === 'end') return to;
  if (/^\d{1,15}$/.test(to)) return { offset: Number(to) };
  const at = Date.parse(to);
  if (Number.isNaN(at)) throw new InvalidArgumentError('--to is first, end, an offset, or a time (ISO 8601)');
  return { at };
}

async function set(log: KafkaLog, { stage, topic, partition, to }: Choice): Promise<number> {
  const count = log.topics.get(topic)?.partitions ?? 0;
  const all = Array.from({ length: count }, (_, number) => number);
  const chosen = partition === undefined ? all : all.filter((number) => number === partition);
  if (chosen.length === 0) throw new InvalidArgumentError(`no topic "${topic}", or no such partition`);
  let changed = 0;
  for (const number of chosen) {
    const stored = await log.positionOf(stage, topic, number);
    if (stored !== undefined) {
      print(`kept     ${topic}/${number} of ${stage}: its consumer group has ${stored}`);
      continue;
    }
    const offset = await offsetOf(log, topic, number, to);
    await log.setPosition({ stage, topic, partition: number }, offset);
    changed++;
    print(`set      ${topic}/${number} of ${stage} to ${offset}`);
  }
  return changed > 0 ? 0 : 1;
}

async function offsetOf(log: KafkaLog, topic: string, partition: number, to: Target): Promise<number> {
  if (to === 'first') return log.first(topic, partition);
  if (to === 'end') return log.end(topic, partition);
  if ('offset' in to) return to.offset;
  return Math.max(await log.first(topic, partition), await log.offsetAt(topic, partition, to.at));
}

function table(known: readonly KnownPosition[]): string {
  const rows = known.map(({ stage, topic, partition, stored, recorded, end }) => [
    stage,
    `${topic}/${partition}`,
    stored === undefined ? 'lost' : String(stored),
    recorded === undefined ? '-' : String(recorded),
    String(end),
  ]);
  return tableText([['stage', 'partition', 'group', 'recorded', 'end'], ...rows]);
}
