import {
  type Charged,
  combinable,
  combined,
  competingClaimWrite,
  type Identity,
  identityKey,
  isSetAside,
  type Logger,
  type Metrics,
  type ProfileExcess,
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
  /** Charges the organization for what a write has read and rewritten. */
  readonly charge: (scope: ProfileScope, outcome: Charged) => void;
}

/** An identity that no longer merges profiles, and the profile that owns it. */
export interface SetAside {
  readonly scope: ProfileScope;
  readonly ucid: string;
  readonly identity: Identity;
  /** Reception of the event that caused it, epoch ms. */
  readonly at: number | undefined;
}

/** A profile that was left as it is, because an event would make it, or a merge of it, too large. */
export interface NotExtended {
  readonly scope: ProfileScope;
  /** `merge`: the profiles of an event would be too large as one. */
  readonly excess: {
    readonly of: ProfileExcess['of'] | 'merge';
    readonly limit?: number;
    readonly ucid?: string;
  };
  readonly event: {
    readonly messageId: string;
    readonly at: number;
    readonly identityTypes: readonly string[];
  };
}

/** The findings about the written events that the organization is told of. */
export interface Findings {
  /** The number of events that were written, from the first on. */
  written: number;
  readonly setAside: SetAside[];
  readonly notExtended: NotExtended[];
}

/** Reported identities and profiles that this process remembers. */
const MAX_REPORTED = 10_000;
const DAY_MS = 24 * 3_600_000;

/** Writes events to the profile store. Logs what the store refused with the ids of events, never with identities. */
export class ProfileWriter {
  readonly #parts: ProfileWriterDependencies;
  readonly #reported = new Set<string>();

  constructor(parts: ProfileWriterDependencies) {
    this.#parts = parts;
  }

  /**
   * Writes the events of one subject in order. Returns the identities that too many users were found to share, and the
   * profiles that would have become too large. Ends early once `isOver` says so. After `Unavailable` all events must be
   * repeated.
   */
  async write(events: readonly WriteOfEvent[], isOver: () => boolean = () => false): Promise<Findings> {
    const findings: Findings = { written: 0, setAside: [], notExtended: [] };
    for (const group of combinable(events)) {
      const [first, ...others] = group;
      if (first === undefined) continue;
      if (isOver()) break;
      const write = combined(
        first.write,
        others.map((other) => other.write),
      );
      const outcome = await this.#upsert(write);
      // The combined write may exceed a limit that the single ones do not.
      if (outcome.kind === 'refused' && others.length > 0) {
        for (const event of group) {
          const one = await this.#upsert(event.write);
          await this.#report(one, event.write, [event], findings);
        }
      } else {
        await this.#report(outcome, write, group, findings);
      }
      findings.written += group.length;
    }
    return findings;
  }

  async #upsert(write: ProfileWrite): Promise<ProfileWriteOutcome> {
    const outcome = await this.#parts.profiles.upsert(write);
    this.#parts.charge(write, outcome);
    return outcome;
  }

  /** The profiles that an event did not extend; each is reported once a day by each process. */
  #notExtendedBy(
    { org, region, identities, receivedAt = 0 }: ProfileWrite,
    outcome: ProfileWriteOutcome,
    messageId: string,
  ): readonly NotExtended[] {
    const scope = { org, region };
    const event = (types: readonly Identity[]) => ({
      messageId,
      at: receivedAt,
      identityTypes: [...new Set(types.map(({ type }) => type))].sort(),
    });
    const found: NotExtended[] = [];
    if (outcome.kind === 'refused') {
      const { excess } = outcome;
      if (excess !== undefined) found.push({ scope, excess, event: event(identities) });
    } else {
      for (const { identity, why, owner } of outcome.leftOut)
        if (why === 'too_large' && owner !== undefined)
          found.push({
            scope,
            excess: { of: 'merge', ucid: owner },
            event: event([identity]),
          });
    }
    return found.filter(({ excess, event: { at } }) =>
      this.#isFirst([org, region, excess.ucid ?? '', excess.of, Math.floor(at / DAY_MS)].join(' ')),
    );
  }

  #isFirst(key: string): boolean {
    if (this.#reported.has(key)) return false;
    if (this.#reported.size >= MAX_REPORTED) this.#reported.clear();
    this.#reported.add(key);
    return true;
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
        const recorded = await this.#upsert(competingClaimWrite(write, { identity, claimant }));
        if (recorded.kind === 'written' && isSetAside(recorded.profile, identity, write.limits))
          found.push({ scope: write, ucid: recorded.profile.ucid, identity, at: write.receivedAt });
      } else if (owner !== undefined) {
        found.push({ scope: write, ucid: owner, identity, at: write.receivedAt });
      }
    }
    return found.filter(({ scope, ucid, identity }) => this.#isNew(scope, ucid, identity));
  }

  #isNew(scope: ProfileScope, ucid: string, identity: Identity): boolean {
    if (!this.#isFirst(`${ucid} ${identityKey(identity)}`)) return false;
    const { logger, metrics } = this.#parts;
    const { type } = identity;
    metrics.count('tributary_profile_identities_set_aside_total', { type });
    logger.warn(
      { type, ucid, org: scope.org, region: scope.region },
      'an identity no longer merges profiles: too many different users share it',
    );
    return true;
  }

  async #report(
    outcome: ProfileWriteOutcome,
    write: ProfileWrite,
    events: readonly WriteOfEvent[],
    findings: Findings,
  ): Promise<void> {
    this.#log(outcome, events);
    findings.notExtended.push(...this.#notExtendedBy(write, outcome, events[0]?.messageId ?? ''));
    findings.setAside.push(...(await this.#sharedBy(write, outcome)));
  }

  #log(outcome: ProfileWriteOutcome, events: readonly WriteOfEvent[]): void {
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
      const level = why === 'too_many' || why === 'too_large' ? 'warn' : 'debug';
      logger[level]({ ...labels, messages }, 'an identity of an event was not linked');
    }
  }
}
