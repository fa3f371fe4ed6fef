import { setTimeout as sleep } from 'node:timers/promises';
import { type Catalog, type Fact, growthRefusal, iso, type TopicSpec, type Verdict } from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import type { KafkaLog } from '../../adapters/event-log/kafka/index.ts';
import { type StartDeadline, untilAvailable } from '../process/await-engines.ts';
import { OperatorError } from '../process/lifecycle.ts';

/** A topic, or all whose keys have an order, with its number of partitions. */
interface Wanted {
  readonly topic: string | 'all';
  readonly partitions: number;
}

interface Growth {
  readonly topic: string;
  readonly from: number;
  readonly to: number;
}

/** Parses `events.accepted=24,deliveries=24` or `24`, which means all topics whose keys have an order. */
export function parseGrowth(texts: readonly string[]): readonly Wanted[] {
  return texts
    .flatMap((text) => text.split(','))
    .map((text) => {
      const [, topic = 'all', count] = /^(?:([a-z0-9][a-z0-9._-]*)=)?(\d{1,6})$/.exec(text.trim()) ?? [];
      if (count === undefined)
        throw new InvalidArgumentError(
          `--partitions takes <topic>=<number>, or a number for all topics: not "${text}"`,
        );
      return { topic, partitions: Number(count) };
    });
}

/** The growths that lead there; those topics are left out that have the partitions. Refused as a whole, in one line. */
export function plannedGrowth(
  wanted: readonly Wanted[],
  topics: ReadonlyMap<string, TopicSpec>,
  prefix = '',
): readonly Growth[] {
  const to = new Map<string, number>();
  for (const { topic, partitions } of wanted) {
    const ordered = [...topics.values()].filter(
      ({ fixed, unordered }) => fixed !== true && unordered !== true,
    );
    for (const name of topic === 'all' ? ordered.map((spec) => spec.name) : [topic]) to.set(name, partitions);
  }
  return [...to].flatMap(([topic, partitions]) => {
    const spec =
      topics.get(topic) ?? topics.get(topic.startsWith(prefix) ? topic.slice(prefix.length) : topic);
    if (spec === undefined)
      throw new OperatorError(`no topic "${topic}": \`tributary topics --print\` lists them`);
    const refusal = growthRefusal(spec, spec.partitions, partitions);
    if (refusal !== undefined) throw new OperatorError(refusal);
    return spec.partitions === partitions
      ? []
      : [{ topic: spec.name, from: spec.partitions, to: partitions }];
  });
}

export interface GrowTools {
  readonly log: KafkaLog;
  readonly catalog: Catalog;
  readonly deadline: StartDeadline;
  /** After so long a process that did not hear of the announcement appends no more, ms. */
  readonly catalogStalenessMs: number;
  readonly print: (line: string) => void;
}

/** Beyond the staleness: the time of an append between reading the catalog and writing to the log, ms. */
const MARGIN_MS = 2_000;

/**
 * Grows topics: first in Kafka, where nothing uses the partitions yet; then an announcement in the catalog, from which on
 * appends of all processes agree on each layout; and when every process has heard of it or is not trusted any more, the
 * adoption. Each step may be repeated after a kill, and `growTopics` begins with the first.
 */
export async function growTopics(growths: readonly Growth[], tools: GrowTools): Promise<void> {
  if (growths.length === 0) return;
  const { log, catalog, deadline, catalogStalenessMs, print } = tools;
  for (const { topic, to } of growths) {
    await untilAvailable(`growing ${topic}`, deadline, () => log.growTopic(topic, to));
    print(`added    partitions of ${topic} in Kafka: ${to}, not used yet`);
  }
  for (const { topic, from, to } of growths)
    await proposed(catalog, {
      ...factBase(topic),
      type: 'topic.growth_announced',
      data: { from, partitions: to },
    });
  const waitMs = catalogStalenessMs + MARGIN_MS;
  print(
    `waiting  ${Math.ceil(waitMs / 1_000)} s until every process has heard of it (TRIBUTARY_CATALOG_STALENESS)`,
  );
  await sleep(waitMs);
  for (const { topic, from, to } of growths) {
    await proposed(catalog, { ...factBase(topic), type: 'topic.grown', data: { partitions: to } });
    print(`grown    ${topic}: ${from} -> ${to} partitions`);
  }
}

function factBase(entity: string) {
  return {
    v: 1,
    entity,
    by: 'operator:topics',
    from: { address: '', request_id: '' },
    at: iso(Date.now()),
  } as const;
}

async function proposed(catalog: Catalog, fact: Fact): Promise<void> {
  const verdict: Verdict = await catalog.propose(fact);
  if (!verdict.applied)
    throw new OperatorError(
      `${fact.entity} was grown by another command meanwhile: \`tributary topics\` shows its partitions`,
    );
}
