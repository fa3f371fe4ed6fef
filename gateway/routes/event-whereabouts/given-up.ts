import type { DeliveryWay, EventLog, PoisonRecord, RuleWay, Whereabouts } from '@tributary/core';
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
  const concluded = rules.some(({ deliveries }) => deliveries.some((delivery) => delivery.first_try));
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
  if (!delivery.first_try) return delivery;
  const sure = all && !records.some(({ entry }) => entry.value.includes(delivery.id));
  return sure ? delivery : { ...delivery, status: 'unknown', first_try: false };
}

/** How an event says that a stage gave it up. */
export function givenUpBy(record: PoisonRecord | undefined): Pick<Whereabouts, 'poisoned'> {
  return record === undefined ? {} : { poisoned: { stage: record.stage, error: record.error } };
}
