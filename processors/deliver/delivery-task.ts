import {
  type Delivery,
  deliveryText,
  HEADER,
  type Headers,
  type LogEntry,
  readDelivery,
} from '@tributary/core';

/** Value of the `outcome` header on records of deliveries that were tried or put off. */
export const RETRYING = 'retrying';

/** A delivery read from the log. */
export interface DeliveryTask {
  readonly delivery: Delivery;
  /** Of its record. `value` is the delivery as text. */
  readonly value: string;
  readonly headers: Headers;
  readonly bytes: number;
  /** Its scheduled slot and since when its destination has had no room for it, where it was deferred; epoch ms. */
  readonly slot: number | undefined;
  readonly deferredSince: number | undefined;
}

/** Throws `InvalidInput` for a record that is no delivery. */
export function readTask(
  { value, headers }: Pick<LogEntry, 'value' | 'headers'>,
  bytes: number,
): DeliveryTask {
  return {
    delivery: readDelivery(value),
    value,
    headers,
    bytes,
    slot: timeIn(headers[HEADER.scheduledAt]),
    deferredSince: timeIn(headers[HEADER.deferredSince]),
  };
}

/** The task with the attempts that were made of it elsewhere. */
export function withDelivery(task: DeliveryTask, delivery: Delivery): DeliveryTask {
  return { ...task, delivery, value: deliveryText(delivery) };
}

/**
 * Whether the delivery was neither tried nor put off since it was made or redriven. Its time to expire begins with its
 * first attempt, however long it lay in the log.
 */
export function isUntried({ delivery, headers }: DeliveryTask): boolean {
  return headers[HEADER.outcome] !== RETRYING && delivery.attempts.length === 0;
}

/** Whether nothing was recorded of the delivery so far. No record is written where its first attempt delivers it. */
export function isFirstTry(task: DeliveryTask): boolean {
  return isUntried(task) && task.delivery.redrives === 0;
}

function timeIn(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const time = Number(text);
  return Number.isFinite(time) ? time : undefined;
}
