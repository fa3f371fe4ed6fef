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
import { awaitCatalog } from '../catalog-position.ts';
import { eventOf } from '../event-record.ts';
import { ProfileWriter, type SetAside } from './profile-writer.ts';

export interface ProfileDependencies {
  readonly catalog: Catalog;
  readonly profiles: Pick<ProfileStore, 'upsert'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly catalogWaitMs: number;
  /** Subjects of a partition that are written concurrently. */
  readonly profileWriters: number;
  readonly profileNulls: NullHandling;
}

/**
 * The stage `profile`: writes identify and group events to profiles, those of one subject in order and different subjects
 * concurrently. Events of other environments than production are only counted: profiles have no environment, and the
 * `user_id` "1" of a test may be a customer's. Idempotent: a repeated event writes the same values with the same times.
 * Emits audit records about identities that too many users share.
 */
export function profile(dependencies: ProfileDependencies): BatchStage['process'] {
  const { catalog, catalogWaitMs, metrics, profileWriters } = dependencies;
  const writer = new ProfileWriter(dependencies);
  return async ({ entries }, { signal }) => {
    const profileEvents = entries.filter(isProfileEvent);
    const production = profileEvents.filter(isOfProduction);
    const others = profileEvents.length - production.length;
    if (others > 0) metrics.count('tributary_profile_events_total', { outcome: 'not_production' }, others);
    if (production.length === 0) return [];
    await awaitCatalog(catalog, production, catalogWaitMs);
    const subjects = new Map<string, WriteOfEvent[]>();
    const aliases = new Map<string, WriteOfEvent[]>();
    for (const entry of production) {
      const write = writeOf(entry, dependencies);
      if (write === undefined) continue;
      const group = write.write.previousIdentity === undefined ? subjects : aliases;
      const known = group.get(entry.key);
      if (known === undefined) group.set(entry.key, [write]);
      else known.push(write);
    }
    // Aliases last: another subject's event of the batch may create the profile that an alias refers to.
    const outputRecords: OutputRecord[] = [];
    for (const group of [subjects, aliases])
      await forEachConcurrently([...group.values()], profileWriters, signal, async (events) => {
        for (const setAside of await writer.write(events))
          outputRecords.push(...recordOf(setAside, dependencies));
      });
    return outputRecords;
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

/** By the headers alone, so that other events, the majority, are not parsed. */
function isProfileEvent({ headers }: LogEntry): boolean {
  return headers[HEADER.type] === 'identify' || headers[HEADER.type] === 'group';
}

/** By the headers. An event without an environment counts as a test. */
function isOfProduction({ headers }: LogEntry): boolean {
  return headers[HEADER.environment] === 'production';
}

/** Undefined where the event has no identity, or its workspace does not exist. */
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

/** The event with the digits of its traits as they were sent. */
function withDigits(event: CanonicalEvent, { value }: LogEntry): CanonicalEvent {
  if (event.traits === undefined || !mayHoldExactNumbers(value)) return event;
  const { traits = event.traits } = parseExact<CanonicalEvent>(value);
  return { ...event, traits };
}

/**
 * Runs `work` for every item, at most `atOnce` at a time. After a failure, or once the signal is aborted, no further item is
 * begun; settles when all begun ones have ended, and rejects with the first failure.
 */
async function forEachConcurrently<T>(
  items: readonly T[],
  atOnce: number,
  signal: AbortSignal,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  const waiting = items.values();
  const worker = async () => {
    for (const item of waiting) {
      try {
        signal.throwIfAborted();
        await work(item);
      } catch (failure) {
        failures.push(failure);
      }
      if (failures.length > 0) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
}
