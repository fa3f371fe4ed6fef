import {
  type CountedEvent,
  countedEvent,
  HEADER,
  hasEvent,
  isNotice,
  measureText,
  type StageNote,
} from '@tributary/core';
import { countedIn } from '../event-record.ts';
import { type DeliveryTask, isDeliveredFirst, type Settled } from './outcome.ts';

type ReadDelivery = Pick<DeliveryTask, 'delivery' | 'headers'>;

/**
 * The funnel note of a delivery that left its stage; undefined while it only moves on, and `unread` where it is counted by fields
 * of its event, which the delivery refers to.
 */
export function settledNote(
  task: DeliveryTask,
  settled: Settled,
  now: number,
): StageNote | 'unread' | undefined {
  const measures = measuresOf(task, settled);
  if (measures === undefined) return undefined;
  const note = deliveryNote(task, measures, isTimed(measures, task) ? now : undefined);
  return note === undefined && !hasEvent(task.delivery) ? 'unread' : note;
}

function measuresOf(task: DeliveryTask, { delivery, outcome }: Settled): string | undefined {
  switch (outcome.kind) {
    case 'delivered':
      return isDeliveredFirst(task, delivery) ? 'delivered_first' : 'delivered_later';
    case 'unwanted':
      return 'unwanted';
    case 'retry':
      return 'retried';
    case 'dead':
      return measureText('dead', outcome.cause);
    default:
      return undefined;
  }
}

/** A replay or a redrive of an old event does not say how long events take. */
function isTimed(measures: string, { delivery }: ReadDelivery): boolean {
  return measures.startsWith('delivered') && delivery.redrives === 0 && delivery.replay === undefined;
}

/** A dead delivery that is sent again as it is. */
export function redrivenNote(read: ReadDelivery): StageNote | undefined {
  return deliveryNote(read, measureText('redriven', 'delivery'));
}

/** Undefined for a notice, which is no event of the workspace. */
function deliveryNote(read: ReadDelivery, measures: string, deliveredAt?: number): StageNote | undefined {
  const { delivery } = read;
  const event = countedOf(read);
  if (event === undefined) return undefined;
  const note = { event, rule: delivery.rule_id, destination: delivery.destination_id, measures };
  return deliveredAt === undefined
    ? note
    : { ...note, latencyMs: Math.max(0, deliveredAt - event.receivedAt) };
}

/** From the header of route; a delivery without one is a notice, was redriven, or is of an earlier release. */
function countedOf({ delivery, headers }: ReadDelivery): CountedEvent | undefined {
  const { message_id, workspace_id, environment } = delivery;
  const known = countedIn(headers, message_id, workspace_id, environment);
  if (known !== undefined) return known;
  if (!hasEvent(delivery) || isNotice(delivery)) return undefined;
  return countedEvent(delivery.event);
}

export function isCountedByHeaders({ headers }: ReadDelivery): boolean {
  return headers[HEADER.countedAs] !== undefined;
}
