import { setTimeout as sleep } from 'node:timers/promises';
import { type Logger, messageOf, TributaryError } from '@tributary/core';
import { type ImportedRecord, OffsetTaken } from '../../adapters/event-log/kafka/index.ts';
import type { StoredPartition } from '../../adapters/event-log/sqlite/index.ts';
import { startDeadline, untilAvailable } from '../process/await-engines.ts';
import type { MoveSource } from './source.ts';
import type { MoveTarget } from './target.ts';

/** Bytes of values of one append. */
const APPEND_BYTES = 1024 * 1024;
/**
 * A request of a process that was killed, or whose answer was lost, may be carried out a moment later: the end counts once
 * it has not changed for so long, ms.
 */
const SETTLED_MS = 2_000;

export interface LogCopyTools {
  readonly source: Pick<MoveSource, 'log'>;
  readonly target: Pick<MoveTarget, 'log' | 'records'>;
  readonly startTimeoutMs: number;
  readonly logger: Logger;
}

/** The next step of copying a partition. */
export type CopyStep =
  | { readonly do: 'fill'; readonly from: number; readonly to: number }
  | { readonly do: 'append'; readonly from: number }
  | { readonly do: 'drop'; readonly below: number }
  | { readonly do: 'nothing' };

/** The next step by what the partition has here (`source`) and there (`target`). */
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
 * Copies a partition, from where an earlier copy ended. Offsets are kept: records that retention dropped at the beginning
 * are filled with records without content, which are dropped in the end. Returns the number of records that this call
 * copied.
 */
export async function copyPartition(tools: LogCopyTools, partition: StoredPartition): Promise<number> {
  const { topic, partition: number } = partition;
  const { log } = tools.target;
  const what = `copying ${topic}/${number}`;
  let end = await endOf(tools, partition);
  if (end > partition.end)
    throw new OffsetTaken(
      `${topic}/${number} has ${end} records in Kafka and ${partition.end} in the data folder: something else was written there. Stop what writes to it, delete the topic with its prefix (kafka-topics --delete), and run this again`,
    );
  const begun = Math.max(end, partition.first);
  for (;;) {
    const first = await attempt(tools, what, () => log.first(topic, number));
    const step = nextStep(partition, { first, end });
    if (step.do === 'nothing') return end - begun;
    try {
      end = await carryOut(tools, partition, step, end);
    } catch (error) {
      if (!(error instanceof TributaryError && error.retryable)) throw error;
      tools.logger.warn({ error: messageOf(error) }, `${what}: not possible yet; trying again`);
      await untilSettled(tools, [partition]);
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
export async function untilSettled(
  tools: LogCopyTools,
  partitions: readonly StoredPartition[],
): Promise<void> {
  const read = () => Promise.all(partitions.map((one) => endOf(tools, one)));
  for (let ends = await read(); ; ) {
    await sleep(SETTLED_MS);
    const now = await read();
    if (now.every((end, at) => end === ends[at])) return;
    ends = now;
  }
}

function endOf(tools: LogCopyTools, { topic, partition }: StoredPartition): Promise<number> {
  return attempt(tools, `looking at ${topic}/${partition}`, () => tools.target.log.end(topic, partition));
}

function attempt<T>(
  { startTimeoutMs, logger }: LogCopyTools,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  return untilAvailable(what, startDeadline(startTimeoutMs, logger), work);
}

/** A record of the data folder and the one in Kafka under its offset differ. */
export class RecordsDiffer extends TributaryError {
  readonly code = 'records_differ';
  readonly retryable = false;
}

/** Compares every record of a partition with the one in Kafka, and returns their number. `RecordsDiffer` at the first. */
export async function comparePartition(
  { source, target }: LogCopyTools,
  { topic, partition, first, end }: StoredPartition,
): Promise<number> {
  const name = `${topic}/${partition}`;
  const bounds = {
    first: await target.log.first(topic, partition),
    end: await target.log.end(topic, partition),
  };
  if (bounds.first !== first || bounds.end !== end)
    throw new RecordsDiffer(
      `${name} has the offsets ${bounds.first} to ${bounds.end} in Kafka, and ${first} to ${end} in the data folder`,
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
  return end - first;
}

function textOf({ offset, timestamp, key, headers, value }: ImportedRecord): string {
  return JSON.stringify([offset, timestamp, key, headers, value]);
}
