import {
  type BatchStage,
  BytesTally,
  type CanonicalEvent,
  type Catalog,
  type Charged,
  eventWrite,
  HEADER,
  identityReadingOf,
  iso,
  type LogEntry,
  mayHoldExactNumbers,
  type NullHandling,
  type OutputRecord,
  operationEntry,
  type ProfileBounds,
  type ProfileScope,
  type ProfileStore,
  parseExact,
  profileRulesOf,
  TOPIC,
  type WriteOfEvent,
} from '@tributary/core';
import { awaitCatalog } from '../catalog-position.ts';
import { eventOf } from '../event-record.ts';
import type { StageParts } from '../stages.ts';
import { OrganizationShares } from './organization-shares.ts';
import { ProfileWriter } from './profile-writer.ts';

export interface ProfileDependencies extends Pick<StageParts, 'catalog' | 'logger' | 'metrics' | 'elapsed'> {
  readonly profiles: Pick<ProfileStore, 'upsert'>;
  /** Subjects of a partition that are written concurrently. */
  readonly profileWriters: number;
  readonly profileNulls: NullHandling;
  readonly profileBounds: ProfileBounds;
}

/** Subjects of an organization with large profiles that are written concurrently. */
const LARGE_WRITERS = 4;

/** Entries of `profiles.slow` in a batch: each may take several ms, and other organizations over their share wait for it. */
const SLOW_ENTRIES = 100;

interface EntryWrite extends WriteOfEvent {
  readonly entry: LogEntry;
}

/** The events of one organization in a batch, by subject and in order. */
type OrganizationEvents = Map<string, EntryWrite[]>;

/**
 * The stage `profile`: writes identify, group and alias events to profiles, those of one subject in order and different subjects
 * concurrently. Profiles are a function of the set of these events and their times, so batches, partitions and repetitions
 * decide nothing (`core/profiles/links.ts`). Events of other environments than production are only counted: profiles have
 * no environment, and the `user_id` "1" of a test may be a customer's. Idempotent: a repeated event writes the same values
 * with the same times. Emits audit records about identities that too many users share, and about profiles that are full.
 *
 * The organizations of a batch are written side by side. Events of one over its share are diverted to `profiles.slow`, which
 * the stage reads beside the accepted events, so that a large profile delays only its own organization.
 */
export function profile(dependencies: ProfileDependencies): BatchStage['process'] {
  const { catalog, metrics, elapsed } = dependencies;
  const shares = new OrganizationShares(elapsed);
  const charge = ({ org }: ProfileScope, outcome: Charged) => shares.charge(String(org), outcome);
  const recorded = ({ org }: ProfileScope, at: number) => ({
    organization_id: catalog.state.organizationByOrgId(org)?.id ?? '',
    at: iso(at),
    by: 'stage:profile',
    from: { address: '', request_id: '' },
  });
  const writer = new ProfileWriter({ ...dependencies, charge, recorded });
  return async ({ topic, entries: all }, { signal, endBatch, count }) => {
    const isSlow = topic === TOPIC.profilesSlow;
    const entries = isSlow && endBatch !== undefined ? all.slice(0, SLOW_ENTRIES) : all;
    if (entries.length < all.length) endBatch?.(entries.length);
    const profileEvents = entries.filter(isProfileEvent);
    const production = profileEvents.filter(isOfProduction);
    const others = profileEvents.length - production.length;
    if (others > 0) metrics.count('tributary_profile_events_total', { outcome: 'not_production' }, others);
    if (production.length === 0) return [];
    await awaitCatalog(catalog, production);
    const diverted: LogEntry[] = [];
    const organizations = new Map<string, OrganizationEvents>();
    for (const entry of production) {
      const organization = organizationOf(entry, catalog);
      if (!isSlow && organization !== undefined && shares.goesToSlowQueue(organization)) {
        diverted.push(entry);
        continue;
      }
      const write = writeOf(entry, dependencies);
      if (write === undefined) continue;
      const key = String(write.write.org);
      const subjects: OrganizationEvents = organizations.get(key) ?? new Map();
      organizations.set(key, subjects);
      const events = subjects.get(entry.key);
      if (events === undefined) subjects.set(entry.key, [write]);
      else events.push(write);
    }
    const outputRecords: OutputRecord[] = [];
    const begun = Array.from(organizations, async ([organization, subjects]) => {
      const isOver = isSlow ? () => false : () => shares.goesToSlowQueue(organization);
      const writers = () => (shares.hasLarge(organization) ? LARGE_WRITERS : dependencies.profileWriters);
      await forEachConcurrently([...subjects.values()], writers, signal, async (events) => {
        const { count: written, operations } = await writer.write(events, isOver);
        for (const operation of operations)
          if (operation.organization_id !== '')
            outputRecords.push({
              topic: TOPIC.profileOperations,
              ...operationEntry(operation, catalog.position),
            });
        diverted.push(...events.slice(written).map(({ entry }) => entry));
      });
    });
    const ended = await Promise.allSettled(begun);
    for (const one of ended) if (one.status === 'rejected') throw one.reason;
    // Those that were diverted are expected in the slow queue instead.
    const bytes = new BytesTally();
    for (const entry of production) bytes.done(topic, entry);
    for (const one of bytes) count?.(one);
    if (isSlow) for (const entry of production) shares.caughtUp(organizationOf(entry, catalog) ?? '');
    if (diverted.length > 0)
      metrics.count('tributary_events_diverted_total', { stage: 'profile' }, diverted.length);
    // In their order: those of a subject stay in order.
    diverted.sort(
      (one, other) =>
        one.position.offset - other.position.offset || one.position.index - other.position.index,
    );
    for (const entry of diverted) shares.divert(organizationOf(entry, catalog) ?? '');
    return [...diverted.map(toSlowQueue), ...outputRecords];
  };
}

/** The organization of an event by its headers; undefined where these do not tell. */
function organizationOf({ headers }: LogEntry, { state }: Catalog): string | undefined {
  const workspace = state.workspace(headers[HEADER.workspaceId] ?? '');
  const organization = state.organization(workspace?.organization_id ?? '');
  return organization === undefined ? undefined : String(organization.org_id);
}

/** The event unchanged, with its offset among the accepted events, which orders values of the same time. */
function toSlowQueue({ key, value, headers, position }: LogEntry): OutputRecord {
  return {
    topic: TOPIC.profilesSlow,
    key,
    value,
    headers: { ...headers, [HEADER.acceptedOffset]: String(position.offset) },
  };
}

/** By the headers alone, so that other events, the majority, are not parsed. */
function isProfileEvent({ headers }: LogEntry): boolean {
  const { [HEADER.type]: type } = headers;
  return type === 'identify' || type === 'group' || type === 'alias';
}

/** By the headers. An event without an environment counts as a test. */
function isOfProduction({ headers }: LogEntry): boolean {
  return headers[HEADER.environment] === 'production';
}

/** Undefined where the event has no identity, or its workspace does not exist. */
function writeOf(
  entry: LogEntry,
  { catalog, metrics, profileNulls, profileBounds: bounds }: ProfileDependencies,
): EntryWrite | undefined {
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
    offset: Number(entry.headers[HEADER.acceptedOffset] ?? entry.position.offset),
    nulls: profileNulls,
    reading: identityReadingOf(organization.profile_settings),
    isBlocked,
  });
  for (const reason of skipped) metrics.count('tributary_profile_identities_skipped_total', { reason });
  if (write !== undefined)
    return {
      entry,
      messageId: event.message_id,
      write: { ...write, bounds, ...(limits === undefined ? {} : { limits }) },
    };
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
  atOnce: () => number,
  signal: AbortSignal,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  const waiting = items.values();
  const worker = async (_: unknown, nth: number) => {
    // The bound may be lowered meanwhile; the first worker always goes on.
    while (nth === 0 || nth < atOnce()) {
      const { done, value: item } = waiting.next();
      if (done === true) return;
      try {
        signal.throwIfAborted();
        await work(item);
      } catch (failure) {
        failures.push(failure);
      }
      if (failures.length > 0) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce(), items.length) }, worker));
  if (failures.length > 0) throw failures[0];
}
