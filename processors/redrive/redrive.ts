import {
  type BatchStage,
  type Clock,
  type Emission,
  type EventLog,
  entryGivenUp,
  HEADER,
  handled,
  InvalidInput,
  iso,
  type LogEntry,
  messageOf,
  type PoisonRecord,
  poisonEmission,
  poisonRecordIn,
  type Stage,
  type StageContext,
  TOPIC,
  TributaryError,
  type VolumeCounters,
} from '@tributary/core';
import { recount } from '../count/count.ts';
import type { StageName } from '../pipeline.ts';

/** The group that redrives; no stage of the pipeline has its name. */
export const REDRIVE = 'redrive';

/** `given up`: once more, with what was wrong this time. `left`: of a stage that was not chosen, or not readable. */
export type RedriveOutcome = 'redriven' | 'failed' | 'left';

export interface RedriveOptions {
  /** All of the pipeline: each is given what it gave up. */
  readonly stages: readonly Stage[];
  readonly counters: VolumeCounters;
  readonly clock: Clock;
  /** Whose records are redriven. All when absent. */
  readonly chosen?: ReadonlySet<string>;
  /** The last offset of each partition of `stages.dead` that is taken: what comes later is of the next redrive. */
  readonly last: ReadonlyMap<number, number>;
  /** Told of each record, of some again after a crash or while an engine does not answer. */
  told(outcome: RedriveOutcome, record: PoisonRecord | undefined, error?: string): void;
}

/** Batches that a delivery could wait in are of one: nothing comes behind it. */
const NOTHING_COMES = AbortSignal.abort();

/**
 * Hands what is on `stages.dead` to the stages that gave it up, as it was: with its position, which repeated effects are
 * known by. What they emit is committed together with the position behind the record, so each is redriven once,
 * whatever is killed and when; effects outside the log are as idempotent as they are in the pipeline. What throws again,
 * and what is not to be redriven, goes to the end of `stages.dead` in the same commit: nothing is lost. Others of its key
 * have gone by since, so an entry is out of their order.
 */
export function redrive(options: RedriveOptions): BatchStage {
  const { stages, last, told } = options;
  const byName = new Map(stages.map((stage) => [stage.name, stage]));
  return {
    kind: 'batch',
    name: REDRIVE,
    reads: [
      {
        topic: TOPIC.poison,
        dueAt: ({ position: { partition, offset } }) =>
          offset <= (last.get(partition) ?? -1) ? 0 : Number.MAX_SAFE_INTEGER,
      },
    ],
    writes: [...new Set([TOPIC.poison, ...stages.flatMap(({ writes }) => writes)])],
    // One at a time: what is done by one, a mail or a delivery, is not done again for another.
    maxEntries: 1,
    repeats: 'visible',
    // What was redriven is dropped.
    startsAtFirst: true,
    async process({ entries: [entry] }, context) {
      if (entry === undefined) return [];
      const record = poisonRecordIn(entry);
      if (record === undefined || !isChosen(options, record)) {
        told('left', record);
        return [moved(entry)];
      }
      try {
        const emissions = await reprocess(options, byName.get(record.stage), record, entry.position, context);
        told('redriven', record);
        return emissions;
      } catch (error) {
        if (error instanceof TributaryError && error.retryable) throw error;
        const message = messageOf(error);
        told('failed', record, message);
        return [poisonEmission(record.stage, entryGivenUp(record), message, iso(options.clock()))];
      }
    },
  };
}

/** One whose entry was left out has nothing to hand over: it stays, and names the position of the entry. */
function isChosen({ chosen }: RedriveOptions, { stage, omitted }: PoisonRecord): boolean {
  if (omitted === true) return false;
  return chosen === undefined || chosen.has(stage);
}

/** As it is, for the next redrive. */
function moved({ key, value, headers }: LogEntry): Emission {
  return { topic: TOPIC.poison, key, value, headers };
}

async function reprocess(
  { counters }: RedriveOptions,
  stage: Stage | undefined,
  record: PoisonRecord,
  at: LogEntry['position'],
  context: StageContext,
): Promise<readonly Emission[]> {
  if (stage === undefined) throw new InvalidInput(`there is no stage "${record.stage}"`);
  const entry = entryGivenUp(record);
  if (stage.name === ('count' satisfies StageName)) {
    await recount(counters, entry, at, context);
    return [];
  }
  // Without the end of the partition: that of `stages.dead` says nothing of the one the entry is from.
  const own: StageContext = { signal: context.signal, stopping: NOTHING_COMES };
  const { topic, partition } = entry.position;
  const emissions = await (stage.kind === 'flow'
    ? handled(stage, entry, own)
    : stage.process({ topic, partition, entries: [entry] }, own));
  return emissions.map(outOfOrder);
}

/** Who finds events in the slow lane by their offsets in `events.accepted` relies on their order. */
function outOfOrder(emission: Emission): Emission {
  const { [HEADER.acceptedOffset]: _passed, ...headers } = emission.headers;
  return { ...emission, headers };
}

/** Of one stage; `undefined` stands for records that cannot be read. */
export interface DeadLettersOfStage {
  readonly stage: string | undefined;
  readonly records: number;
  /** When the first and the last of them were given up, ISO 8601. */
  readonly from?: string;
  readonly to?: string;
  /** Of the last one. */
  readonly error?: string;
}

/** What stages gave up and nobody has redriven. */
export interface DeadLetters {
  /** Those of most records first. */
  readonly stages: readonly DeadLettersOfStage[];
  /** The offset of the last record, by partition of `stages.dead`; without those that hold none. */
  readonly last: ReadonlyMap<number, number>;
}

const WAIT_MS = 1_000;

/** Reads `stages.dead` to where it ends now. `Unavailable` when the log does not answer. */
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
        const record = poisonRecordIn(entry);
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
