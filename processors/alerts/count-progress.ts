import type { StageSample } from '@tributary/core';

/** A sampling of the stages whose work the counts depend on. Times are epoch ms. */
export interface CountSample {
  /** Before and after the sampling. */
  readonly beganAt: number;
  readonly endedAt: number;
  readonly validate: StageSample | undefined;
  readonly funnel: StageSample | undefined;
}

/** Until when all is counted, epoch ms; undefined where that is not known yet. */
export interface CountedUntil {
  /** Events, by when they were received. */
  readonly events: number | undefined;
  /** Outcomes of deliveries, by when they were known. */
  readonly deliveries: number | undefined;
}

interface Validated {
  /** Time of the sampling. */
  readonly at: number;
  /** All events appended before this time had been validated at the sampling. */
  readonly until: number;
}

/** Samples that are kept: the counts of a stage that is further behind are not complete for a long time. */
const MAX_KEPT = 120;

/**
 * Follows until when events are counted. An event is counted after two steps: `validate` appends its counts, the stage
 * `funnel` stores them. So everything is counted that had been validated when the oldest count in the topic was appended.
 */
export class CountProgress {
  #validated: Validated[] = [];

  add({ beganAt, endedAt, validate, funnel }: CountSample): CountedUntil {
    const stored = doneUntil(funnel, beganAt);
    const until = doneUntil(validate, beganAt);
    const counted = stored === undefined ? undefined : this.#validatedAt(stored);
    if (until !== undefined) {
      this.#validated.push({ at: endedAt, until });
      if (this.#validated.length > MAX_KEPT) this.#validated.shift();
    }
    return { events: counted, deliveries: stored };
  }

  /** Until when events had been validated at a time. Samples before it are not needed any more, except the last. */
  #validatedAt(time: number): number | undefined {
    const last = this.#validated.findLastIndex(({ at }) => at <= time);
    if (last === -1) return undefined;
    this.#validated = this.#validated.slice(last);
    return this.#validated[0]?.until;
  }
}

/** Until when the records of a stage are done: all of them at the sampling, or those before the oldest one that is left. */
function doneUntil(sample: StageSample | undefined, at: number): number | undefined {
  if (sample === undefined) return undefined;
  let until = at;
  for (const { lag, oldestAt } of sample.partitions) {
    if (lag === 0) continue;
    if (oldestAt === undefined) return undefined;
    until = Math.min(until, oldestAt);
  }
  return until;
}
