import type { Delivery, DeliveryWay, EventLog, PoisonRecord, RuleWay, Whereabouts } from '@tributary/core';
import { findPoisoned, type Poisoned } from './accepted.ts';
import type { Look } from './look.ts';
import type { ReceivedEvent } from './received.ts';

/** Stages passed what they gave up as well, so nothing is taken for done that one of them gave up. */
export async function withoutGivenUp(
  look: Look,
  log: EventLog,
  received: ReceivedEvent,
  rules: readonly RuleWay[],
): Promise<Pick<Whereabouts, 'rules' | 'poisoned'>> {
  const lost = rules.some((rule) => rule.mismatch === undefined && rule.transformation === 'unknown');
  const concluded = rules.some(({ deliveries }) =>
    deliveries.some(({ first_try, status }) => first_try || status === 'retrying'),
  );
  if (!lost && !concluded) return { rules };
  const poisoned = await findPoisoned(look, log, received);
  const checked = rules.map((rule) => ({
    ...rule,
    deliveries: rule.deliveries.map((delivery) => unlessGivenUp(delivery, poisoned)),
  }));
  const open = checked.flatMap(({ deliveries }) => deliveries.filter(({ status }) => status === 'unknown'));
  const ofDelivery = poisoned.records.find(({ entry }) => open.some(({ id }) => entry.value.includes(id)));
  return { rules: checked, ...givenUpBy(ofDelivery ?? (lost ? poisoned.records[0] : undefined)) };
}

function unlessGivenUp(delivery: DeliveryWay, { records, all }: Poisoned): DeliveryWay {
  if (delivery.status === 'retrying') return unlessLost(delivery, records);
  if (!delivery.first_try) return delivery;
  const sure = all && !records.some(({ entry }) => entry.value.includes(delivery.id));
  return sure ? delivery : { ...delivery, status: 'unknown', first_try: false };
}

/**
 * What history tells as retrying is not where the entry that was to be tried next was given up. One that was redriven
 * since and tried again has a later attempt than that entry knows.
 */
function unlessLost(delivery: DeliveryWay, records: Poisoned['records']): DeliveryWay {
  const last = delivery.attempts.at(-1)?.at ?? '';
  const isLost = records.some(({ entry }) => {
    const lost = deliveryIn(entry.value);
    return lost?.id === delivery.id && (lost.attempts.at(-1)?.at ?? '') >= last;
  });
  if (!isLost) return delivery;
  const { next_attempt_at: _never, ...rest } = delivery;
  return { ...rest, status: 'unknown' };
}

/** Undefined for an entry of another topic, or one that was given up because it is no JSON. */
function deliveryIn(value: string): Pick<Delivery, 'id' | 'attempts'> | undefined {
  try {
    const { id, attempts } = JSON.parse(value) as Partial<Delivery>;
    return id === undefined || !Array.isArray(attempts) ? undefined : { id, attempts };
  } catch {
    return undefined;
  }
}

/** How an event says that a stage gave it up. */
export function givenUpBy(record: PoisonRecord | undefined): Pick<Whereabouts, 'poisoned'> {
  return record === undefined ? {} : { poisoned: { stage: record.stage, error: record.error } };
}
