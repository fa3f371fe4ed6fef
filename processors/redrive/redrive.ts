import {
  type BatchStage,
  type Clock,
  type DeadLetterRecord,
  deadLetteredEntry,
  deadLetterOf,
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
  TOPIC,
  TributaryError,
  type VolumeCounters,
} from '@tributary/core';
import { recount } from '../count/recount.ts';
import type { StageName } from '../stage-names.ts';

/** The group that redrives; no stage of the pipeline has its name. */
export const REDRIVE = 'redrive';

/** `given up`: once more, with what was wrong this time. `left`: of a stage that was not chosen, or not readable. */
export type RedriveOutcome = 'redriven' | 'given up' | 'left';

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
  told(outcome: RedriveOutcome, record: DeadLetterRecord | undefined, error?: string): void;
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
      const record = readDeadLetter(entry);
      if (record === undefined || !isChosen(options, record)) {
        told('left', record);
        return [moved(entry)];
      }
      try {
        const emissions = await handedOver(
          options,
          byName.get(record.stage),
          record,
          entry.position,
          context,
        );
        told('redriven', record);
        return emissions;
      } catch (error) {
        if (error instanceof TributaryError && error.retryable) throw error;
        const message = messageOf(error);
        told('given up', record, message);
        return [deadLetterOf(record.stage, deadLetteredEntry(record), message, iso(options.clock()))];
      }
    },
  };
}

/** One whose entry was left out has nothing to hand over: it stays, and names the position of the entry. */
function isChosen({ chosen }: RedriveOptions, { stage, omitted }: DeadLetterRecord): boolean {
  if (omitted === true) return false;
  return chosen === undefined || chosen.has(stage);
}

/** As it is, for the next redrive. */
function moved({ key, value, headers }: LogEntry): OutputRecord {
  return { topic: TOPIC.poison, key, value, headers };
}

async function handedOver(
  { counters }: RedriveOptions,
  stage: Stage | undefined,
  record: DeadLetterRecord,
  at: LogEntry['position'],
  context: StageContext,
): Promise<readonly OutputRecord[]> {
  if (stage === undefined) throw new InvalidInput(`there is no stage "${record.stage}"`);
  const entry = deadLetteredEntry(record);
  if (stage.name === ('count' satisfies StageName)) {
    await recount(counters, entry, at, context);
    return [];
  }
  // Without the end of the partition: that of `stages.dead` says nothing of the one the entry is from.
  const own: StageContext = { signal: context.signal, stopping: NOTHING_COMES };
  const { topic, partition } = entry.position;
  const emissions = await (stage.kind === 'flow'
    ? runFlowStage(stage, entry, own)
    : stage.process({ topic, partition, entries: [entry] }, own));
  return emissions.map(outOfOrder);
}

/** Who finds events in the slow lane by their offsets in `events.accepted` relies on their order. */
function outOfOrder(emission: OutputRecord): OutputRecord {
  const { [HEADER.acceptedOffset]: _passed, ...headers } = emission.headers;
  return { ...emission, headers };
}
