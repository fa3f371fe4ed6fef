import {
  type DeliveryEnvelope,
  HEADER,
  hasEvent,
  type LogEntry,
  type OutputRecord,
  readDeliveryReference,
  withReferencedEvent,
} from '@tributary/core';
import { positionIn, type RecordReader } from '../record-reader.ts';
import { type DeliveryTask, followedTask, readTask, withDelivery, withoutItsHolder } from './outcome.ts';

/** Reads deliveries and their events where records refer to them. */
export class DeliveryReads {
  readonly #records: Pick<RecordReader, 'read' | 'eventText'>;

  constructor(records: Pick<RecordReader, 'read' | 'eventText'>) {
    this.#records = records;
  }

  /**
   * The task of a record of `deliveries*`, or the record of its death where it refers to a delivery that the log no longer
   * has: the retention was made shorter, or no stage ran before `isHolderOld` could have the delivery written anew. Throws
   * `InvalidInput` for a record that is no delivery.
   */
  task(entry: LogEntry, bytes: number, now: number): DeliveryTask | Promise<DeliveryTask | OutputRecord> {
    const reference = readDeliveryReference(entry.value);
    if (reference === undefined) return readTask(entry, bytes);
    return this.#records
      .read(positionIn(reference.of), entry.headers[HEADER.workspaceId] ?? '')
      .then(
        (holder) => followedTask(entry, bytes, reference, holder) ?? withoutItsHolder(entry, reference, now),
      );
  }

  /** The delivery with its event; undefined where the log no longer has that. */
  async withEvent(delivery: DeliveryEnvelope): Promise<DeliveryEnvelope | undefined> {
    const { event_at, workspace_id } = delivery;
    if (hasEvent(delivery) || event_at === undefined) return delivery;
    const text = await this.#records.eventText(event_at, workspace_id);
    return text === undefined ? undefined : withReferencedEvent(delivery, text);
  }

  /** The same for a task. */
  async taskWithEvent(task: DeliveryTask): Promise<DeliveryTask | undefined> {
    const delivery = await this.withEvent(task.delivery);
    if (delivery === undefined || delivery === task.delivery) return delivery && task;
    return withDelivery(task, delivery);
  }
}
