import {
  claimWrite,
  combinable,
  combined,
  type Identity,
  identityKey,
  isSetAside,
  type Logger,
  type Metrics,
  type ProfileScope,
  type ProfileStore,
  type ProfileWrite,
  type ProfileWriteOutcome,
  type WriteOfEvent,
} from '@tributary/core';

export interface ProfileWriterDependencies {
  readonly profiles: Pick<ProfileStore, 'upsert'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** An identity that joins nobody any more, on the profile that has it. */
export interface SetAside {
  readonly scope: ProfileScope;
  readonly ucid: string;
  readonly identity: Identity;
  /** When the event was received that showed it, epoch ms. */
  readonly at: number | undefined;
}

/** Identities of which this process remembers that it reported them. */
const MAX_REPORTED = 10_000;

/** Writes what events say into the store, and tells what it did not take: of which event, never of whom. */
export class ProfileWriter {
  readonly #parts: ProfileWriterDependencies;
  readonly #reported = new Set<string>();

  constructor(parts: ProfileWriterDependencies) {
    this.#parts = parts;
  }

  /** Events of one subject, in order; what they showed to be shared by too many. `Unavailable`: repeat all of them. */
  async write(events: readonly WriteOfEvent[]): Promise<readonly SetAside[]> {
    const setAside: SetAside[] = [];
    for (const group of combinable(events)) {
      const [first, ...others] = group;
      if (first === undefined) continue;
      const write = combined(
        first.write,
        others.map((other) => other.write),
      );
      const outcome = await this.#parts.profiles.upsert(write);
      // What is too much together may be fine in parts.
      if (outcome.kind === 'refused' && others.length > 0) {
        for (const event of group) {
          const one = await this.#parts.profiles.upsert(event.write);
          this.#tell(one, [event]);
          setAside.push(...(await this.#sharedBy(event.write, one)));
        }
      } else {
        this.#tell(outcome, group);
        setAside.push(...(await this.#sharedBy(write, outcome)));
      }
    }
    return setAside;
  }

  /**
   * Lets the owners of identities that stayed with somebody else know who came with them. An identity that is set aside
   * already is reported once more by each process: the one that set it aside may have died before it was recorded.
   */
  async #sharedBy(write: ProfileWrite, outcome: ProfileWriteOutcome): Promise<readonly SetAside[]> {
    if (outcome.kind === 'refused') return [];
    const found: SetAside[] = [];
    for (const { identity, claimant, owner } of outcome.leftOut) {
      if (claimant !== undefined) {
        const told = await this.#parts.profiles.upsert(claimWrite(write, { identity, claimant }));
        if (told.kind === 'written' && isSetAside(told.profile, identity, write.limits))
          found.push({ scope: write, ucid: told.profile.ucid, identity, at: write.receivedAt });
      } else if (owner !== undefined) {
        found.push({ scope: write, ucid: owner, identity, at: write.receivedAt });
      }
    }
    return found.filter(({ scope, ucid, identity }) => this.#isNew(scope, ucid, identity));
  }

  #isNew(scope: ProfileScope, ucid: string, identity: Identity): boolean {
    const key = `${ucid} ${identityKey(identity)}`;
    if (this.#reported.has(key)) return false;
    if (this.#reported.size >= MAX_REPORTED) this.#reported.clear();
    this.#reported.add(key);
    const { logger, metrics } = this.#parts;
    const { type } = identity;
    metrics.count('tributary_profile_identities_set_aside_total', { type });
    logger.warn(
      { type, ucid, org: scope.org, region: scope.region },
      'an identity joins nobody any more: too many different users came with it',
    );
    return true;
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
