import { randomUUID } from 'node:crypto';
import {
  type Delivery,
  type DeliveryOutcome,
  type HistoryEntry,
  historyEntryOfOutcome,
  newId,
} from '@tributary/core';

export type Outcome = Partial<Omit<DeliveryOutcome, 'delivery'>>;

type Ids = Pick<Delivery, 'workspace_id' | 'destination_id' | 'rule_id'>;

/** The entry of a delivery dead-lettered at this epoch time in ms, unless the fields override it. */
export function deadDelivery(
  time: number,
  fields: Outcome,
  { workspace_id, ...about }: Ids & Partial<Delivery>,
): HistoryEntry {
  const at = new Date(time).toISOString();
  const message_id = newId();
  const delivery: Delivery = {
    id: randomUUID(),
    workspace_id,
    environment: 'production',
    message_id,
    index: 0,
    created_at: at,
    attempts: [{ at, outcome: 'dead', reason: 'gone', status: 410, duration_ms: 12 }],
    redrives: 0,
    event: {
      message_id,
      type: 'track',
      event: 'Paid',
      user_id: 'u',
      timestamp: at,
      received_at: at,
      environment: 'production',
      workspace_id,
    },
    ...about,
  };
  return historyEntryOfOutcome({
    delivery,
    status: 'dead',
    reason: 'gone',
    cause: 'destination',
    at,
    ...fields,
  });
}
