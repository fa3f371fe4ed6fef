import {
  type BatchStage,
  type Clock,
  type DeadLetterRecord,
  deadLetteredEntry,
  deadLetterOf,
  type EventLog,
  HEADER,
  InvalidInput,
  iso,
  type LogEntry,
  messageOf,
  type OutputRecord,
  readDeadLetter,
  runFlowStage,
  type Stage,
  type StageContext,
  type StageNote,
  summedCountsIn,
  TOPIC,
  TributaryError,
} from '@tributary/core';
import type { StageName } from '../stages.ts';

/** The consumer group of redrives; no stage of the pipeline has this name. */
export const REDRIVE = 'redrive';

/** `failed`: dead-lettered again with the new error. `left`: unreadable, or of a stage that was not chosen. */
export type RedriveOutcome = 'redriven' | 'failed' | 'left';

export interface RedriveOptions {
  /** All stages of the pipeline: a record is processed by the stage that dead-lettered it. */
  readonly stages: readonly Stage[];
  readonly clock: Clock;
  /** The stages whose records are redriven. Default: all. */
  readonly chosen?: ReadonlySet<string>;
  /** The last offset that is redriven, by partition of `stages.dead`: later records belong to the next redrive. */
  readonly last: ReadonlyMap<number, number>;
  /** Called for each record; again for some after a crash, or while an engine does not respond. */
  report(outcome: RedriveOutcome, record: DeadLetterRecord | undefined, error?: string): void;
}

/** Aborted, so that no delivery waits for others to share a batch: records are redriven one at a time. */
const ALREADY_STOPPING = AbortSignal.abort();

/**
 * Redrives `stages.dead`: each record is processed by the stage that dead-lettered it, as it was, with its original
 * position, by which effects are deduplicated.
 *
 * - The output records are committed with the position behind the record, so each is redriven once, whatever is killed.
 *   Effects outside the log are as idempotent as in the pipeline.
 * - A record that fails again, or is not to be redriven, is appended to `stages.dead` in the same commit: none is lost.
 * - Order is not kept: later records of the same key have been processed before.
 */
export function redrive(options: RedriveOptions): BatchStage {
  const { stages, last, report } = options;
  const byName = new Map(stages.map((stage) => [stage.name, stage]));
  return {
    kind: 'batch',
    name: REDRIVE,
    reads: [{ topic: TOPIC.poison, end: (partition) => (last.get(partition) ?? -1) + 1 }],
    writes: [...new Set([TOPIC.poison, ...stages.flatMap(({ writes }) => writes)])],
    // One at a time: a mail or a delivery is not repeated because another record of the batch fails.
    maxEntries: 1,
    countsForm: () => stages[0]?.countsForm?.() ?? 'deflated',
    repeats: 'visible',
    // Redriven records are dropped from the topic: without a known position it begins at the first record kept.
    startsAtFirst: true,
    async process({ entries: [entry] }, context) {
      if (entry === undefined) return [];
      const record = readDeadLetter(entry);
      if (record === undefined || !isChosen(options, record)) {
        report('left', record);
        return [moved(entry)];
      }
      try {
        const outputRecords = await reprocess(byName.get(record.stage), record, context);
        report('redriven', record);
        return outputRecords;
      } catch (error) {
        if (error instanceof TributaryError && error.retryable) throw error;
        const message = messageOf(error);
        report('failed', record, message);
        return [deadLetterOf(record.stage, deadLetteredEntry(record), message, iso(options.clock()))];
      }
    },
  };
}

/** A record without its entry (too large to keep) cannot be redriven: it stays and names the position of the entry. */
function isChosen({ chosen }: RedriveOptions, { stage, omitted }: DeadLetterRecord): boolean {
  if (omitted === true) return false;
  return chosen === undefined || chosen.has(stage);
}

/** The record unchanged, for the next redrive. */
function moved({ key, value, headers }: LogEntry): OutputRecord {
  return { topic: TOPIC.poison, key, value, headers };
}

async function reprocess(
  stage: Stage | undefined,
  record: DeadLetterRecord,
  context: StageContext,
): Promise<readonly OutputRecord[]> {
  if (stage === undefined) throw new InvalidInput(`there is no stage "${record.stage}"`);
  const entry = deadLetteredEntry(record);
  if (stage.name === ('funnel' satisfies StageName)) {
    // Its position was counted past: it is appended again for the stage. A record that the stage would refuse fails here.
    summedCountsIn([entry]);
    const { key, value } = entry;
    const headers = { [HEADER.appendedAt]: String(entry.timestamp), ...entry.headers };
    return [{ topic: TOPIC.funnelCounts, key, value, headers }];
  }
  // Without `end`: the end of `stages.dead` is not that of the entry's partition.
  const notes: StageNote[] = [];
  const own: StageContext = {
    signal: context.signal,
    stopping: ALREADY_STOPPING,
    count: (note) => void notes.push(note),
  };
  const { topic, partition } = entry.position;
  const outputRecords = await (stage.kind === 'flow'
    ? runFlowStage(stage, entry, own)
    : stage.process({ topic, partition, entries: [entry] }, own));
  // Only now: an entry that fails again counts nothing.
  for (const note of notes) context.count?.(note);
  return outputRecords.map(outOfOrder);
}

/** Without the offset in `events.accepted`: the event trace relies on its order in the slow queue. */
function outOfOrder(outputRecord: OutputRecord): OutputRecord {
  const { [HEADER.acceptedOffset]: _passed, ...headers } = outputRecord.headers;
  return { ...outputRecord, headers };
}

/** Dead letters of one stage; `undefined` stands for records that cannot be read. */
export interface DeadLettersOfStage {
  readonly stage: string | undefined;
  readonly records: number;
  /** When the first and the last of them were dead-lettered, ISO 8601. */
  readonly from?: string;
  readonly to?: string;
  /** The error of the last one. */
  readonly error?: string;
}

/** The records of `stages.dead` that were not redriven. */
export interface DeadLetters {
  /** Most records first. */
  readonly stages: readonly DeadLettersOfStage[];
  /** The offset of the last record, by partition of `stages.dead`; without empty partitions. */
  readonly last: ReadonlyMap<number, number>;
}

const WAIT_MS = 1_000;

/** Reads `stages.dead` to its current end. `Unavailable` where the log does not respond. */
export async function readDeadLetters(
  log: Pick<EventLog, 'topics' | 'read' | 'end' | 'first' | 'positionOf'>,
): Promise<DeadLetters> {
  const topic = TOPIC.poison;
  const stages = new Map<string | undefined, DeadLettersOfStage>();
  const last = new Map<number, number>();
  const partitions = log.topics.get(topic)?.partitions ?? 0;
  for (let partition = 0; partition < partitions; partition++) {
    const end = await log.end(topic, partition);
    let next = (await log.positionOf(REDRIVE, topic, partition)) ?? (await log.first(topic, partition));
    while (next < end) {
      const read = await log.read(topic, partition, next, { waitMs: WAIT_MS });
      for (const entry of read.entries) {
        if (entry.position.offset >= end) break;
        last.set(partition, entry.position.offset);
        const record = readDeadLetter(entry);
        stages.set(record?.stage, withRecord(stages.get(record?.stage), record));
      }
      next = read.next;
    }
  }
  return { stages: [...stages.values()].sort((a, b) => b.records - a.records), last };
}

function withRecord(
  known: DeadLettersOfStage | undefined,
  record: { readonly stage: string; readonly at: string; readonly error: string } | undefined,
): DeadLettersOfStage {
  const records = (known?.records ?? 0) + 1;
  if (record === undefined) return { stage: undefined, records };
  const { stage, at, error } = record;
  const isLast = known?.to === undefined || known.to <= at;
  return {
    stage,
    records,
    from: known?.from === undefined || at < known.from ? at : known.from,
    to: isLast ? at : known.to,
    error: isLast ? error : (known.error ?? error),
  };
}
