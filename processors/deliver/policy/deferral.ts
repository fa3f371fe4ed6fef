import type { RetrySchedule, RetryStep } from '@tributary/core';

/** A delivery that its destination has no room for now. Times are epoch ms. */
export interface SlotQuestion {
  readonly now: number;
  /** Its wait behind the deliveries that the process holds for the destination, ms. */
  readonly waitMs: number;
  /** Share of one delivery in that wait, ms. */
  readonly eachMs: number;
  /** Behind the slots of all deliveries deferred before. */
  readonly queueTail: number;
  /** The slot it was given when it was deferred first. */
  readonly slot: number | undefined;
  readonly schedule: RetrySchedule;
}

export interface ScheduledSlot {
  /** When its request is expected to begin; kept when it is deferred again. */
  readonly at: number;
  /** Where it waits: the longest step that ends before its slot, so that the destination never runs idle. */
  readonly step: RetryStep;
  readonly queueTail: number;
}

/**
 * Schedules a delivery behind those deferred before it. The slot is an estimate: a delivery that comes back is sent as
 * soon as there is room, and one that finds none keeps its slot, so it is deferred ever more briefly and rarely.
 */
export function scheduleSlot(question: SlotQuestion): ScheduledSlot {
  const { now, waitMs, eachMs, queueTail, slot, schedule } = question;
  const at = slot ?? Math.max(queueTail, now + waitMs);
  return {
    at,
    step: schedule.findLast(({ ms }) => ms <= at - now) ?? schedule[0],
    queueTail: slot === undefined ? at + eachMs : queueTail,
  };
}
