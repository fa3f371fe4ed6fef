import {
  type BatchStage,
  type CanonicalEvent,
  type Catalog,
  eventWrite,
  HEADER,
  identityReadingOf,
  iso,
  type LogEntry,
  type Logger,
  type Metrics,
  mayHoldExactNumbers,
  type NullHandling,
  type OutputRecord,
  operationEntry,
  type ProfileStore,
  parseExact,
  profileRulesOf,
  setAsideOperation,
  TOPIC,
  type WriteOfEvent,
} from '@tributary/core';
import { awaitCatalog } from '../causality.ts';
import { eventOf } from '../entry.ts';
import { inTurns } from './in-turns.ts';
import { ProfileWriter, type SetAside } from './profile-writer.ts';

export interface ProfileDependencies {
  readonly catalog: Catalog;
  readonly profiles: Pick<ProfileStore, 'upsert'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly catalogWaitMs: number;
  /** Subjects of a partition that are written at a time. */
  readonly profileWriters: number;
  readonly profileNulls: NullHandling;
}

/**
 * Writes the profiles of whom identify and group events are about: what one subject's events say in order, different
 * subjects side by side. Events of other environments than production are counted and write nothing: profiles know no
 * environment, and a test's `user_id` "1" may be a customer's. A replay writes the same values with the same times, which
 * changes nothing. It emits what the audit log tells of identities that are shared by too many.
 */
export function profile(dependencies: ProfileDependencies): BatchStage['process'] {
  const { catalog, catalogWaitMs, metrics, profileWriters } = dependencies;
  const writer = new ProfileWriter(dependencies);
  return async ({ entries }, { signal }) => {
    const aboutSomebody = entries.filter(isAboutSomebody);
    const telling = aboutSomebody.filter(isOfProduction);
    const others = aboutSomebody.length - telling.length;
    if (others > 0) metrics.count('tributary_profile_events_total', { outcome: 'not_production' }, others);
    if (telling.length === 0) return [];
    await awaitCatalog(catalog, telling, catalogWaitMs);
    const subjects = new Map<string, WriteOfEvent[]>();
    const aliases = new Map<string, WriteOfEvent[]>();
    for (const entry of telling) {
      const told = writeOf(entry, dependencies);
      if (told === undefined) continue;
      const turn = told.write.previousIdentity === undefined ? subjects : aliases;
      const known = turn.get(entry.key);
      if (known === undefined) turn.set(entry.key, [told]);
      else known.push(told);
    }
    // Whom an alias names may be made a person by an event beside it, of another subject; other orders do not matter.
    const emissions: OutputRecord[] = [];
    for (const turn of [subjects, aliases])
      await inTurns([...turn.values()], profileWriters, signal, async (events) => {
        for (const setAside of await writer.write(events))
          emissions.push(...recordOf(setAside, dependencies));
      });
    return emissions;
  };
}

function recordOf(
  { scope, ucid, identity, at }: SetAside,
  { catalog }: ProfileDependencies,
): readonly OutputRecord[] {
  const organization = catalog.state.organizationByOrgId(scope.org);
  if (organization === undefined) return [];
  const operation = setAsideOperation(scope, ucid, identity, {
    organization_id: organization.id,
    at: iso(at ?? 0),
    by: 'stage:profile',
    from: { address: '', request_id: '' },
  });
  return [{ topic: TOPIC.profileOperations, ...operationEntry(operation, catalog.position) }];
}

/** By its headers alone: most events are others, and need not be parsed. */
function isAboutSomebody({ headers }: LogEntry): boolean {
  return headers[HEADER.type] === 'identify' || headers[HEADER.type] === 'group';
}

/** Likewise. What does not say where it is from is taken for a test. */
function isOfProduction({ headers }: LogEntry): boolean {
  return headers[HEADER.environment] === 'production';
}

/** Undefined when the event says nothing of anybody, or nobody knows whose it is. */
function writeOf(
  entry: LogEntry,
  { catalog, metrics, profileNulls }: ProfileDependencies,
): WriteOfEvent | undefined {
  const event = eventOf(entry);
  const count = (outcome: string) => metrics.count('tributary_profile_events_total', { outcome });
  const workspace = catalog.state.workspace(event.workspace_id);
  const organization = catalog.state.organization(workspace?.organization_id ?? '');
  if (workspace === undefined || organization === undefined) {
    count('no_workspace');
    return undefined;
  }
  const { isBlocked, limits } = profileRulesOf(organization.profile_settings);
  const { write, skipped } = eventWrite(withDigits(event, entry), {
    scope: { org: organization.org_id, region: workspace.region },
    offset: entry.position.offset,
    nulls: profileNulls,
    reading: identityReadingOf(organization.profile_settings),
    isBlocked,
  });
  for (const reason of skipped) metrics.count('tributary_profile_identities_skipped_total', { reason });
  if (write !== undefined)
    return { messageId: event.message_id, write: limits === undefined ? write : { ...write, limits } };
  count('nobody');
  return undefined;
}

/** The event whose traits have the digits they were sent with. */
function withDigits(event: CanonicalEvent, { value }: LogEntry): CanonicalEvent {
  if (event.traits === undefined || !mayHoldExactNumbers(value)) return event;
  const { traits = event.traits } = parseExact<CanonicalEvent>(value);
  return { ...event, traits };
}
