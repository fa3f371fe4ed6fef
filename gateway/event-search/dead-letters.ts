import {
  attemptsIn,
  type DeadLetterRecord,
  type Delivery,
  type DeliveryTrace,
  type EventLog,
  type EventTrace,
  type NewEntry,
  type RuleTrace,
  readDeliveryReference,
  TOPIC,
} from '@tributary/core';
import type { LogScan, ScanEnd } from './log-scan.ts';
import { CLOCK_SKEW_MS, type ReceivedEvent } from './received-event.ts';

/** Entries of one event that stages moved to the dead-letter topic. */
interface DeadLetters {
  readonly records: readonly DeadLetterRecord[];
  /** True when the topic was read to its end. */
  readonly complete: boolean;
}

const NO_IDS: ReadonlySet<string> = new Set();

/** Finds the dead-letter records of the event and of its deliveries, which may be keyed by these ids. */
export async function findDeadLetters(
  scan: LogScan,
  log: EventLog,
  { entry, event }: ReceivedEvent,
  deliveryIds: ReadonlySet<string> = NO_IDS,
): Promise<DeadLetters> {
  const topic = TOPIC.poison;
  const partitions = log.topics.get(topic)?.partitions ?? 0;
  const records: DeadLetterRecord[] = [];
  // The entry is a JSON text within a JSON text.
  const messageId = JSON.stringify(JSON.stringify(event.message_id)).slice(1, -1);
  const scanPartition = async (partition: number): Promise<ScanEnd> => {
    const from = await log.offsetAt(topic, partition, entry.timestamp - CLOCK_SKEW_MS);
    return scan.visit({ topic, partition, from }, ({ key, value }) => {
      const isNamed = value.includes(messageId) && value.includes(event.workspace_id);
      if (isNamed || deliveryIds.has(key)) records.push(JSON.parse(value) as DeadLetterRecord);
      return undefined;
    });
  };
  const ends = await Promise.all(
    Array.from({ length: partitions }, (_, partition) => scanPartition(partition)),
  );
  return { records, complete: !ends.includes('timed out') };
}

/**
 * The rules, corrected by dead letters: the position of a stage passes entries that it dead-lettered too, so a delivery
 * counts as delivered or retrying only when no stage dead-lettered it.
 */
export async function withDeadLetters(
  scan: LogScan,
  log: EventLog,
  received: ReceivedEvent,
  rules: readonly RuleTrace[],
): Promise<Pick<EventTrace, 'rules' | 'poisoned'>> {
  const isUndecided = rules.some((rule) => rule.mismatch === undefined && rule.transformation === 'unknown');
  const isConcluded = rules.some(({ deliveries }) =>
    deliveries.some(({ first_try, status }) => first_try || status === 'retrying'),
  );
  if (!isUndecided && !isConcluded) return { rules };
  const ids = new Set(rules.flatMap(({ deliveries }) => deliveries.map(({ id }) => id)));
  const deadLetters = await findDeadLetters(scan, log, received, ids);
  const checked = rules.map((rule) => ({
    ...rule,
    deliveries: rule.deliveries.map((delivery) => unlessDeadLettered(delivery, deadLetters)),
  }));
  const unknown = checked.flatMap(({ deliveries }) =>
    deliveries.filter(({ status }) => status === 'unknown'),
  );
  const ofDelivery = deadLetters.records.find(({ entry }) =>
    unknown.some(({ id }) => entry.key === id || entry.value.includes(id)),
  );
  const record = ofDelivery ?? (isUndecided ? deadLetters.records[0] : undefined);
  return { rules: checked, ...failedStage(record) };
}

function unlessDeadLettered(delivery: DeliveryTrace, { records, complete }: DeadLetters): DeliveryTrace {
  if (delivery.status === 'retrying') return unlessRetryDeadLettered(delivery, records);
  if (!delivery.first_try) return delivery;
  const isDelivered =
    complete &&
    !records.some(({ entry: { key, value } }) => key === delivery.id || value.includes(delivery.id));
  return isDelivered ? delivery : { ...delivery, status: 'unknown', first_try: false };
}

/**
 * History shows a delivery as retrying although the entry of its next attempt was dead-lettered. A delivery that was
 * redriven and attempted since has a later attempt than that entry.
 */
function unlessRetryDeadLettered(
  delivery: DeliveryTrace,
  records: readonly DeadLetterRecord[],
): DeliveryTrace {
  const lastAttemptAt = delivery.attempts.at(-1)?.at ?? '';
  const isDeadLettered = records.some(({ entry }) => {
    const logged = deliveryIn(entry);
    return logged?.id === delivery.id && (logged.attempts.at(-1)?.at ?? '') >= lastAttemptAt;
  });
  if (!isDeadLettered) return delivery;
  const { next_attempt_at: _never, ...rest } = delivery;
  return { ...rest, status: 'unknown' };
}

/** Undefined for an entry of another topic, and for one that is not valid JSON. */
function deliveryIn({
  key,
  value,
}: Pick<NewEntry, 'key' | 'value'>): Pick<Delivery, 'id' | 'attempts'> | undefined {
  try {
    const reference = readDeliveryReference(value);
    if (reference !== undefined) return { id: key, attempts: attemptsIn(reference.attempts) };
    const { id, attempts } = JSON.parse(value) as Partial<Delivery>;
    return id === undefined || !Array.isArray(attempts) ? undefined : { id, attempts };
  } catch {
    return undefined;
  }
}

/** The field by which a trace states that a stage dead-lettered the event. */
export function failedStage(record: DeadLetterRecord | undefined): Pick<EventTrace, 'poisoned'> {
  return record === undefined ? {} : { poisoned: { stage: record.stage, error: record.error } };
}
