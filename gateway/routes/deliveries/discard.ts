import { type DeliveryOutcome, deliveryKey, HEADER, iso, type NewEntry } from '@tributary/core';
import { headersOf } from './redrive.ts';

/**
 * The entry that lets a dead delivery be: from then on it is shown as discarded and not redriven. Where somebody
 * redrives it at the same moment the redrive goes on, and what comes of that is shown in the end.
 */
export function discardOf(dead: DeliveryOutcome, now: number, catalogPosition: number): NewEntry {
  const { delivery } = dead;
  const discarded: DeliveryOutcome = { ...dead, status: 'discarded', at: iso(now) };
  return {
    key: deliveryKey(delivery),
    value: JSON.stringify(discarded),
    headers: { ...headersOf(delivery, catalogPosition), [HEADER.outcome]: 'discarded' },
  };
}
