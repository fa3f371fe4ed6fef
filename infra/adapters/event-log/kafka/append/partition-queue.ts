import { type TopicSpec, type TributaryError, Unavailable } from '@tributary/core';
import type { Part } from './call.ts';
import type { PartitionOfGroup } from './group.ts';
import type { Leader } from './leader.ts';

/** What waits to be appended to one partition, in the order of the calls. */
export class PartitionQueue {
  readonly spec: TopicSpec;
  readonly partition: number;
  /** Where it goes; undefined while that is not known. */
  leader: Leader | undefined;
  lookedUp = false;
  /** What was taken last is not on its way yet: whatever is taken after it could overtake it. */
  leaving = false;
  /** Above 0 while refused appends are tried again in parts: nothing may overtake them. */
  held = 0;
  /** Bytes of one group at most, learned from refusals; one call alone may be larger. */
  maxBytes = Number.POSITIVE_INFINITY;
  /** What was sent and is not settled, in order. */
  readonly inFlight: PartitionOfGroup[] = [];
  #parts: Part[] = [];

  constructor(spec: TopicSpec, partition: number) {
    this.spec = spec;
    this.partition = partition;
  }

  /** Whether what waits may go. */
  get mayLeave(): boolean {
    return !this.leaving && this.held === 0;
  }

  get empty(): boolean {
    return this.#parts.length === 0;
  }

  add(part: Part): void {
    this.#parts.push(part);
  }

  /** The first ones, of `bytes` together at most or one alone. Those whose time is over are told so. */
  take(atMost: number): { readonly parts: readonly Part[]; readonly bytes: number } {
    const now = performance.now();
    const bytes = Math.min(atMost, this.maxBytes);
    const parts: Part[] = [];
    let seen = 0;
    let taken = 0;
    for (const part of this.#parts) {
      if (part.call.sendUntil < now) {
        part.call.failed(new Unavailable('Kafka: it did not come to be appended in time'));
      } else {
        if (parts.length > 0 && taken + part.bytes > bytes) break;
        parts.push(part);
        taken += part.bytes;
      }
      seen++;
    }
    this.#parts = seen === this.#parts.length ? [] : this.#parts.slice(seen);
    return { parts, bytes: taken };
  }

  /** Nothing waits any more, and who did is told why. */
  failAll(reason: TributaryError): void {
    for (const part of this.#parts.splice(0)) part.call.failed(reason);
  }
}
