import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Logger,
  messageOf,
  type Position,
  parsePosition,
  readDeadLetter,
  type StageReads,
  TOPIC,
  TributaryError,
} from '@tributary/core';
import { type ImportedRecord, OffsetTaken } from '../../adapters/event-log/kafka/index.ts';
import type { StoredLog, StoredPartition } from '../../adapters/event-log/sqlite/index.ts';
import type { Attempt, MoveTarget } from './target.ts';

/** Bytes of values of one append. */
const APPEND_BYTES = 1024 * 1024;
/**
 * A request of a process that was killed, or whose answer was lost, may be carried out a moment later: the end counts once
 * it has not changed for so long, ms.
 */
const UNCHANGED_MS = 2_000;

/** Topics that are copied whole: the catalog, and what no stage reads before an operator or a start asks for it. */
const COPIED_WHOLE: readonly string[] = [TOPIC.catalog, TOPIC.poison, TOPIC.crashes];

/** What a replay reads: copied whole while one runs, or may be about to begin. */
const REPLAYED: readonly string[] = [TOPIC.accepted, TOPIC.rejected];

type ReadableLog = Pick<StoredLog, 'records' | 'positions'>;

/** The record at a position; undefined where retention has dropped it. */
export function storedRecord(log: Pick<StoredLog, 'records'>, { topic, partition, offset }: Position) {
  const [record] = log.records(topic, partition, offset, 1);
  return record?.offset === offset ? record : undefined;
}

/**
 * The part of each partition that is copied: from the first record that a stage has not done, or that such a record refers
 * to. All before it is left behind, as if retention had dropped it.
 */
export function neededPartitions(
  log: ReadableLog,
  partitions: readonly StoredPartition[],
  reads: readonly StageReads[],
): readonly StoredPartition[] {
  const stored = new Map(partitions.map((one) => [nameOf(one), one]));
  const positions = new Map(log.positions().map((one) => [`${one.stage} ${nameOf(one)}`, one.offset]));
  /** The first record that the stage has not done. A partition without a position was never processed. */
  const doneBy = (stage: string, one: StoredPartition) =>
    positions.get(`${stage} ${nameOf(one)}`) ?? one.first;
  const replays = reads.filter(({ stage }) => stage === 'replay');
  const isReplaying = partitions.some((one) =>
    replays.some(({ stage, topics }) => topics.includes(one.topic) && doneBy(stage, one) < one.end),
  );
  const whole = isReplaying ? [...COPIED_WHOLE, ...REPLAYED] : COPIED_WHOLE;
  const from = new Map(
    partitions.map((one) => {
      const { topic, first, end } = one;
      if (whole.includes(topic)) return [nameOf(one), first];
      const done = reads
        .filter(({ topics }) => topics.includes(topic))
        .map(({ stage }) => doneBy(stage, one));
      return [nameOf(one), Math.max(first, Math.min(end, ...done))];
    }),
  );
  const followed = new Set<string>();
  const follow = (topic: string, value: string) => {
    for (const text of referencesIn(topic, value)) {
      const position = followed.has(text) ? undefined : parsePosition(text);
      followed.add(text);
      if (position === undefined) continue;
      const start = from.get(nameOf(position));
      const { first, end } = stored.get(nameOf(position)) ?? { first: 0, end: 0 };
      if (start === undefined || position.offset < first || position.offset >= end) continue;
      from.set(nameOf(position), Math.min(start, position.offset));
      const record = storedRecord(log, position);
      if (record !== undefined) follow(position.topic, record.value);
    }
  };
  for (const { topic, partition, end } of partitions.filter((one) => mayRefer(one.topic)))
    for (let at = from.get(nameOf({ topic, partition })) ?? end; at < end; ) {
      const records = log.records(topic, partition, at, APPEND_BYTES);
      for (const { value } of records) follow(topic, value);
      at = (records.at(-1)?.offset ?? end) + 1;
    }
  return partitions.map((one) => ({ ...one, first: from.get(nameOf(one)) ?? one.first }));
}

function nameOf({ topic, partition }: Pick<StoredPartition, 'topic' | 'partition'>): string {
  return `${topic}/${partition}`;
}

function mayRefer(topic: string): boolean {
  return topic.startsWith(TOPIC.deliveries) || topic === TOPIC.eventsSlow || topic === TOPIC.poison;
}

/**
 * The positions that a record refers to: of its event, of the record with its delivery, of a dead-lettered entry that is not
 * in it. Texts of an event may look like one; then more is copied than is needed.
 */
function referencesIn(topic: string, value: string): readonly string[] {
  if (topic === TOPIC.poison) {
    const letter = readDeadLetter({ value });
    if (letter === undefined) return [];
    const { topic: from, partition, offset, index } = letter.position;
    return letter.omitted === true
      ? [`${from}/${partition}/${offset}/${index}`]
      : referencesIn(from, letter.entry.value);
  }
  return mayRefer(topic)
    ? [...value.matchAll(/"(?:of|position)":"([^"]+)"/g)].flatMap((match) => match[1] ?? [])
    : [];
}

export interface LogCopyTools {
  readonly source: { readonly log: Pick<StoredLog, 'records'> };
  readonly target: Pick<MoveTarget, 'log' | 'records'>;
  readonly attempt: Attempt;
  readonly logger: Logger;
}

/** The next step of copying a partition. */
type CopyStep =
  | { readonly do: 'fill'; readonly from: number; readonly to: number }
  | { readonly do: 'append'; readonly from: number }
  | { readonly do: 'drop'; readonly below: number }
  | { readonly do: 'nothing' };

/** The next step by what is to be copied of the partition (`source`) and what is there (`target`). */
export function nextStep(
  source: { readonly first: number; readonly end: number },
  target: { readonly first: number; readonly end: number },
): CopyStep {
  if (target.end < source.first) return { do: 'fill', from: target.end, to: source.first };
  if (target.end < source.end) return { do: 'append', from: target.end };
  if (target.first < source.first) return { do: 'drop', below: source.first };
  return { do: 'nothing' };
}

/**
 * Copies a partition, from where an earlier copy ended. Offsets are kept: those below `first` are filled with records
 * without content, which are dropped in the end. Returns the number of records that this call copied.
 */
export async function copyPartition(tools: LogCopyTools, partition: StoredPartition): Promise<number> {
  const { topic, partition: number } = partition;
  const { log } = tools.target;
  const what = `copying ${nameOf(partition)}`;
  let end = await endOf(tools, partition);
  if (end > partition.end)
    throw new OffsetTaken(
      `${nameOf(partition)} has ${end} records in Kafka and ${partition.end} in the data folder: something else was written there. Stop what writes to it, delete the topic with its prefix (kafka-topics --delete), and run this again`,
    );
  const begun = Math.max(end, partition.first);
  for (;;) {
    const first = await tools.attempt(what, () => log.first(topic, number));
    const step = nextStep(partition, { first, end });
    if (step.do === 'nothing') return end - begun;
    try {
      end = await carryOut(tools, partition, step, end);
    } catch (error) {
      if (!(error instanceof TributaryError && error.retryable)) throw error;
      tools.logger.warn({ error: messageOf(error) }, `${what}: not possible yet; trying again`);
      await untilUnchanged(tools, [partition]);
      end = await endOf(tools, partition);
    }
  }
}

/** Returns the end afterwards. */
async function carryOut(
  { source, target }: LogCopyTools,
  { topic, partition, first, end: sourceEnd }: StoredPartition,
  step: Exclude<CopyStep, { do: 'nothing' }>,
  end: number,
): Promise<number> {
  switch (step.do) {
    case 'fill': {
      const [oldest] = source.log.records(topic, partition, first, 1);
      await target.records.fill(topic, partition, step.from, step.to, oldest?.timestamp ?? Date.now());
      return step.to;
    }
    case 'append': {
      let at = step.from;
      while (at < sourceEnd) {
        const records = source.log.records(topic, partition, at, APPEND_BYTES);
        const gap = records.findIndex(({ offset }, index) => offset !== at + index);
        if (records.length === 0 || gap >= 0)
          throw new Error(`${topic}/${partition} of the data folder has no record ${at + Math.max(0, gap)}`);
        await target.records.append(topic, partition, records);
        at += records.length;
      }
      return at;
    }
    case 'drop':
      await target.log.dropBelow(topic, partition, step.below);
      return end;
  }
}

/** Waits until the ends of partitions in Kafka do not change any more. */
export async function untilUnchanged(
  tools: LogCopyTools,
  partitions: readonly StoredPartition[],
): Promise<void> {
  const read = () => Promise.all(partitions.map((one) => endOf(tools, one)));
  for (let ends = await read(); ; ) {
    await sleep(UNCHANGED_MS);
    const now = await read();
    if (now.every((end, at) => end === ends[at])) return;
    ends = now;
  }
}

function endOf({ attempt, target }: LogCopyTools, one: StoredPartition): Promise<number> {
  return attempt(`looking at ${nameOf(one)}`, () => target.log.end(one.topic, one.partition));
}

/** A record of the data folder and the one in Kafka under its offset differ. */
class RecordsDiffer extends TributaryError {
  readonly code = 'records_differ';
  readonly retryable = false;
}

/** Compares every copied record with the one in Kafka. `RecordsDiffer` at the first that is another. */
export async function comparePartition(
  { source, target }: LogCopyTools,
  one: StoredPartition,
): Promise<void> {
  const { topic, partition, first, end } = one;
  const name = nameOf(one);
  const bounds = {
    first: await target.log.first(topic, partition),
    end: await target.log.end(topic, partition),
  };
  if (bounds.first !== first || bounds.end !== end)
    throw new RecordsDiffer(
      `${name} has the offsets ${bounds.first} to ${bounds.end} in Kafka, and should have ${first} to ${end}`,
    );
  const copies = target.records.records(topic, partition, first, end);
  let at = first;
  while (at < end) {
    const records = source.log.records(topic, partition, at, APPEND_BYTES);
    for (const record of records) {
      const { value: copy } = (await copies.next()) as IteratorResult<ImportedRecord, undefined>;
      if (copy === undefined || textOf(copy) !== textOf(record))
        throw new RecordsDiffer(
          `${name} has another record ${record.offset} in Kafka than in the data folder`,
        );
    }
    if (records.length === 0) throw new RecordsDiffer(`${name} of the data folder has no record ${at}`);
    at += records.length;
  }
}

function textOf({ offset, timestamp, key, headers, value }: ImportedRecord): string {
  return JSON.stringify([offset, timestamp, key, headers, value]);
}
