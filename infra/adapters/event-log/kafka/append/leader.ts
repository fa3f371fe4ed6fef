import type { PartitionQueue } from './partition-queue.ts';

/** Requests to one broker at the same time: it answers one after the other. */
const MAX_IN_FLIGHT = 4;

/** A broker as one that leads partitions. Each has a way of its own: one that is slow or silent holds up no other. */
export class Leader {
  readonly nodeId: number;
  /** What it leads that has something to append. */
  readonly waiting = new Set<PartitionQueue>();
  /** It gave no answer: whom it leads has to be looked up again. */
  gone = false;
  /** A group is not on its way yet. */
  leaving = false;
  inFlight = 0;

  constructor(nodeId: number) {
    this.nodeId = nodeId;
  }

  /** Whether a group of what waits may go. */
  get ready(): boolean {
    if (this.leaving || this.gone || this.inFlight >= MAX_IN_FLIGHT) return false;
    for (const queue of this.waiting) if (queue.mayLeave) return true;
    return false;
  }
}
