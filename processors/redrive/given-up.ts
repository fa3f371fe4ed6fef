import { type EventLog, readDeadLetter, TOPIC } from '@tributary/core';
import { REDRIVE } from './redrive.ts';

/** Of one stage; `undefined` stands for records that cannot be read. */
export interface GivenUpByStage {
  readonly stage: string | undefined;
  readonly records: number;
  /** When the first and the last of them were given up, ISO 8601. */
  readonly from?: string;
  readonly to?: string;
  /** Of the last one. */
  readonly error?: string;
}

/** What stages gave up and nobody has redriven. */
export interface GivenUp {
  /** Those of most records first. */
  readonly stages: readonly GivenUpByStage[];
  /** The offset of the last record, by partition of `stages.dead`; without those that hold none. */
  readonly last: ReadonlyMap<number, number>;
}

const WAIT_MS = 1_000;

/** Reads `stages.dead` to where it ends now. `Unavailable` when the log does not answer. */
export async function givenUp(
  log: Pick<EventLog, 'topics' | 'read' | 'end' | 'first' | 'positionOf'>,
): Promise<GivenUp> {
  const topic = TOPIC.poison;
  const stages = new Map<string | undefined, GivenUpByStage>();
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
        stages.set(record?.stage, withOne(stages.get(record?.stage), record));
      }
      next = read.next;
    }
  }
  return { stages: [...stages.values()].sort((a, b) => b.records - a.records), last };
}

function withOne(
  known: GivenUpByStage | undefined,
  record: { readonly stage: string; readonly at: string; readonly error: string } | undefined,
): GivenUpByStage {
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
