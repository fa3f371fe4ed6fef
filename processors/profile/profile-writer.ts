import {
  type Charged,
  combinable,
  combined,
  competingClaimWrite,
  type Identity,
  isSetAside,
  type Logger,
  type Metrics,
  notExtendedOperation,
  type ProfileOperation,
  type ProfileScope,
  type ProfileStore,
  type ProfileWrite,
  type ProfileWriteOutcome,
  setAsideOperation,
  type WriteOfEvent,
} from '@tributary/core';

export interface ProfileWriterDependencies {
  readonly profiles: Pick<ProfileStore, 'upsert'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Charges the organization for what a write has read and rewritten. */
  readonly charge: (scope: ProfileScope, outcome: Charged) => void;
  /** The fields of an operation of the stage, on profiles of this scope at this time. */
  readonly recorded: (scope: ProfileScope, at: number) => Parameters<typeof setAsideOperation>[3];
}

/** What was written of the events of a subject. */
interface Written {
  /** The number of events that were written, from the first on. */
  count: number;
  /** What the organization is told: identities that no longer merge profiles, and profiles that are full. */
  readonly operations: ProfileOperation[];
}

/** Reported operations that this process remembers. */
const MAX_REPORTED = 10_000;

/** Writes events to the profile store. Logs what the store refused with the ids of events, never with identities. */
export class ProfileWriter {
  readonly #parts: ProfileWriterDependencies;
  readonly #reported = new Set<string>();

  constructor(parts: ProfileWriterDependencies) {
    this.#parts = parts;
  }

  /**
   * Writes the events of one subject in order. Ends early once `isOver` says so. After `Unavailable` all events must be
   * repeated.
   */
  async write(events: readonly WriteOfEvent[], isOver: () => boolean = () => false): Promise<Written> {
    const written: Written = { count: 0, operations: [] };
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
          written.operations.push(...(await this.#report(one, event.write, [event])));
        }
      } else {
        written.operations.push(...(await this.#report(outcome, write, group)));
      }
      written.count += group.length;
    }
    return written;
  }

  async #upsert(write: ProfileWrite): Promise<ProfileWriteOutcome> {
    const outcome = await this.#parts.profiles.upsert(write);
    this.#parts.charge(write, outcome);
    return outcome;
  }

  /**
   * Logs and counts the outcome, and returns what the organization is told of it. Each process reports an operation once, also
   * one of an earlier event: the process that found it may have died before its report was committed.
   */
  async #report(
    outcome: ProfileWriteOutcome,
    write: ProfileWrite,
    events: readonly WriteOfEvent[],
  ): Promise<readonly ProfileOperation[]> {
    this.#log(outcome, events);
    const found = [
      ...this.#notExtendedBy(write, outcome, events[0]?.messageId ?? ''),
      ...(await this.#sharedBy(write, outcome)),
    ].filter(({ id }) => !this.#reported.has(id));
    for (const { id, name, identity_types: types, regions, outcome: done } of found) {
      if (this.#reported.size >= MAX_REPORTED) this.#reported.clear();
      this.#reported.add(id);
      if (name !== 'set_aside') continue;
      const { logger, metrics } = this.#parts;
      const [[type = ''], [region], [ucid]] = [types, regions, done?.ucids ?? []];
      metrics.count('tributary_profile_identities_set_aside_total', { type });
      logger.warn(
        { type, ucid, org: write.org, region },
        'an identity no longer merges profiles: too many different users share it',
      );
    }
    return found;
  }

  /** The profiles that an event did not extend. */
  #notExtendedBy(
    write: ProfileWrite,
    outcome: ProfileWriteOutcome,
    messageId: string,
  ): readonly ProfileOperation[] {
    const { receivedAt: at = 0 } = write;
    const operation = (
      excess: Parameters<typeof notExtendedOperation>[1],
      identities: readonly Identity[],
    ) => {
      const identityTypes = [...new Set(identities.map(({ type }) => type))].sort();
      const event = { messageId, at, identityTypes };
      return notExtendedOperation(write, excess, event, this.#parts.recorded(write, at));
    };
    if (outcome.kind === 'refused')
      return outcome.excess === undefined ? [] : [operation(outcome.excess, write.identities)];
    return outcome.leftOut.flatMap(({ identity, why, owner: ucid }) =>
      why === 'too_large' && ucid !== undefined ? [operation({ of: 'merge', ucid }, [identity])] : [],
    );
  }

  /** Records at the owners of identities which other users were seen with them. */
  async #sharedBy(write: ProfileWrite, outcome: ProfileWriteOutcome): Promise<readonly ProfileOperation[]> {
    if (outcome.kind === 'refused') return [];
    const found: ProfileOperation[] = [];
    for (const { identity, why, claimant, owner } of outcome.leftOut) {
      let ucid = why === 'shared' ? owner : undefined;
      if (claimant !== undefined) {
        const recorded = await this.#upsert(competingClaimWrite(write, { identity, claimant }));
        if (recorded.kind === 'written' && isSetAside(recorded.profile, identity, write.limits))
          ucid = recorded.profile.ucid;
      }
      if (ucid === undefined) continue;
      const recorded = this.#parts.recorded(write, write.receivedAt ?? 0);
      found.push(setAsideOperation(write, ucid, identity, recorded));
    }
    return found;
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
