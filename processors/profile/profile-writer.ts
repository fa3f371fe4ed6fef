import {
  combinable,
  combined,
  type Logger,
  type Metrics,
  type ProfileStore,
  type ProfileWriteOutcome,
  type WriteOfEvent,
} from '@tributary/core';

export interface ProfileWriterDependencies {
  readonly profiles: Pick<ProfileStore, 'upsert'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Writes what events say into the store, and tells what it did not take: of which event, never of whom. */
export class ProfileWriter {
  readonly #parts: ProfileWriterDependencies;

  constructor(parts: ProfileWriterDependencies) {
    this.#parts = parts;
  }

  /** Events of one subject, in order. `Unavailable`: repeat all of them. */
  async write(events: readonly WriteOfEvent[]): Promise<void> {
    for (const group of combinable(events)) {
      const [first, ...others] = group;
      if (first === undefined) continue;
      const write = combined(
        first.write,
        others.map((other) => other.write),
      );
      const outcome = await this.#parts.profiles.upsert(write);
      // What is too much together may be fine in parts.
      if (outcome.kind === 'refused' && others.length > 0) await this.#writeOneByOne(group);
      else this.#tell(outcome, group);
    }
  }

  async #writeOneByOne(events: readonly WriteOfEvent[]): Promise<void> {
    for (const event of events) this.#tell(await this.#parts.profiles.upsert(event.write), [event]);
  }

  #tell(outcome: ProfileWriteOutcome, events: readonly WriteOfEvent[]): void {
    const { logger, metrics } = this.#parts;
    const result = outcome.kind === 'refused' ? outcome.reason : outcome.kind;
    metrics.count('tributary_profile_events_total', { outcome: result }, events.length);
    const messages = events.map(({ messageId }) => messageId);
    if (outcome.kind === 'refused') {
      // That an event came before a deletion is no fault of anybody's.
      const level = outcome.reason === 'nothing_left' ? 'debug' : 'warn';
      logger[level]({ reason: outcome.reason, messages }, 'events were not written to a profile');
      return;
    }
    for (const { identity, why } of outcome.leftOut) {
      const labels = { reason: why, type: identity.type };
      metrics.count('tributary_profile_identities_left_out_total', labels);
      const level = why === 'too_many' ? 'warn' : 'debug';
      logger[level]({ ...labels, messages }, 'an identity of an event was not linked');
    }
  }
}
