import {
  combinable,
  combined,
  competingClaimWrite,
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

/** An identity that no longer merges profiles, and the profile that owns it. */
export interface SetAside {
  readonly scope: ProfileScope;
  readonly ucid: string;
  readonly identity: Identity;
  /** Reception of the event that caused it, epoch ms. */
  readonly at: number | undefined;
}

/** Reported identities that this process remembers. */
const MAX_REPORTED = 10_000;

/** Writes events to the profile store. Logs what the store refused with the ids of events, never with identities. */
export class ProfileWriter {
  readonly #parts: ProfileWriterDependencies;
  readonly #reported = new Set<string>();

  constructor(parts: ProfileWriterDependencies) {
    this.#parts = parts;
  }

  /**
   * Writes the events of one subject in order. Returns the identities that too many users were found to share. After
   * `Unavailable` all events must be repeated.
   */
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
      // The combined write may exceed a limit that the single ones do not.
      if (outcome.kind === 'refused' && others.length > 0) {
        for (const event of group) {
          const one = await this.#parts.profiles.upsert(event.write);
          this.#report(one, [event]);
          setAside.push(...(await this.#sharedBy(event.write, one)));
        }
      } else {
        this.#report(outcome, group);
        setAside.push(...(await this.#sharedBy(write, outcome)));
      }
    }
    return setAside;
  }

  /**
   * Records at the owners of identities which other users were seen with them. An identity that is set aside already is
   * reported once by each process, as the process that set it aside may have died before its report was committed.
   */
  async #sharedBy(write: ProfileWrite, outcome: ProfileWriteOutcome): Promise<readonly SetAside[]> {
    if (outcome.kind === 'refused') return [];
    const found: SetAside[] = [];
    for (const { identity, claimant, owner } of outcome.leftOut) {
      if (claimant !== undefined) {
        const recorded = await this.#parts.profiles.upsert(
          competingClaimWrite(write, { identity, claimant }),
        );
        if (recorded.kind === 'written' && isSetAside(recorded.profile, identity, write.limits))
          found.push({ scope: write, ucid: recorded.profile.ucid, identity, at: write.receivedAt });
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
      'an identity no longer merges profiles: too many different users share it',
    );
    return true;
  }

  #report(outcome: ProfileWriteOutcome, events: readonly WriteOfEvent[]): void {
    const { logger, metrics } = this.#parts;
    const result = outcome.kind === 'refused' ? outcome.reason : outcome.kind;
    metrics.count('tributary_profile_events_total', { outcome: result }, events.length);
    const messages = events.map(({ messageId }) => messageId);
    if (outcome.kind === 'refused') {
      // An event from before a deletion is not an error.
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
