import { type AuditEntry, actorOf } from '../catalog/audit-log.ts';
import type { AuditedCalls } from '../catalog/audited-calls.ts';
import type { Catalog, CatalogView } from '../catalog/catalog.ts';
import type { FactOrigin } from '../catalog/facts.ts';
import type { EventLog, NewEntry } from '../log/event-log.ts';
import { HEADER, TOPIC } from '../log/topics.ts';
import { nameId } from '../primitives/ids.ts';
import { identityHash } from './identity/identity.ts';
import type { Identity, ProfileScope } from './profile.ts';

/** Operations on profiles that the audit log lists: the verb of its entries. */
type ProfileOperationName = 'deleted' | 'unlinked' | 'split' | 'set_aside' | 'not_extended';

/**
 * A call of the profile API that removes something from profiles, or a decision of the stage `profile` that the
 * organization has to know, as a record of `profiles.operations`. It holds the
 * types of identities, counts and ucids, but no identity values: an erased identity must not stay in a log.
 */
export interface ProfileOperation {
  /** A UUID, the same in both records of a call. */
  readonly id: string;
  readonly name: ProfileOperationName;
  readonly organization_id: string;
  readonly regions: readonly string[];
  /** The types of the given identities, or `ucid`. */
  readonly identity_types: readonly string[];
  /** The number of different given identities or ucids. */
  readonly requested: number;
  /** When the call was received, ISO 8601; the same in both records. */
  readonly at: string;
  /** The caller: an account id, `key:<id>` of a client key, or `stage:<name>`. */
  readonly by: string;
  readonly from: FactOrigin;
  /** Of `not_extended`: the bound that the profile would exceed, and an event that it was not extended by. */
  readonly excess?: { readonly bound: string; readonly limit?: number; readonly message_id: string };
  /** Absent in the first record, which is written before the change. */
  readonly outcome?: ProfileOperationOutcome;
}

export interface ProfileOperationOutcome {
  readonly ucids: readonly string[];
  /** How many of the given identities or ucids matched nothing. */
  readonly not_found: number;
  /** False when the engine stopped answering: more profiles may have been changed. */
  readonly complete: boolean;
}

/**
 * The operation that sets an identity aside, because too many different users came with it. Its id is the same
 * however often it is recorded.
 */
export function setAsideOperation(
  scope: ProfileScope,
  ucid: string,
  identity: Identity,
  recorded: Pick<ProfileOperation, 'organization_id' | 'at' | 'by' | 'from'>,
): ProfileOperation {
  return {
    ...recorded,
    id: nameId('set aside', ucid, identityHash(scope, identity)),
    name: 'set_aside',
    regions: [scope.region],
    identity_types: [identity.type],
    requested: 1,
    outcome: { ucids: [ucid], not_found: 0, complete: true },
  };
}

const DAY_MS = 24 * 3_600_000;

/**
 * The operation that leaves a profile as it is, because an event would make it, or a merge of it with another one, too
 * large. Its id is the same for all events of a day (UTC) that meet the same bound.
 */
export function notExtendedOperation(
  { org, region }: ProfileScope,
  excess: { readonly of: string; readonly limit?: number; readonly ucid?: string },
  event: { readonly messageId: string; readonly at: number; readonly identityTypes: readonly string[] },
  recorded: Pick<ProfileOperation, 'organization_id' | 'at' | 'by' | 'from'>,
): ProfileOperation {
  const { of, limit, ucid } = excess;
  const day = Math.floor(event.at / DAY_MS);
  return {
    ...recorded,
    id: nameId('not extended', org, region, ucid ?? '', of, day),
    name: 'not_extended',
    regions: [region],
    identity_types: event.identityTypes,
    requested: 1,
    excess: {
      bound: `profile_${of}`,
      ...(limit === undefined ? {} : { limit }),
      message_id: event.messageId,
    },
    outcome: { ucids: ucid === undefined ? [] : [ucid], not_found: 0, complete: true },
  };
}

export function operationEntry(
  operation: ProfileOperation | AuditedCalls,
  catalogPosition: number,
): NewEntry {
  const headers = { [HEADER.catalogPosition]: String(catalogPosition) };
  return { key: operation.organization_id, value: JSON.stringify(operation), headers };
}

/** Resolves once the record is durable. `Unavailable` when that is not known; record it again. */
export type RecordProfileOperation = (operation: ProfileOperation | AuditedCalls) => Promise<void>;

/** Appends operations to `profiles.operations`, from which the `history` stage makes entries of the audit log. */
export function recordProfileOperations(
  log: Pick<EventLog, 'append'>,
  catalog: Pick<Catalog, 'position'>,
): RecordProfileOperation {
  return async (operation) => {
    await log.append(TOPIC.profileOperations, [operationEntry(operation, catalog.position)]);
  };
}

/**
 * Entries of the organization's audit log: one for each changed profile. A call that changed none, or has not ended
 * yet, has one entry for the operation itself. The first entry has the operation's id, so the second record of a call
 * replaces the entry of the first.
 */
export function auditEntriesOf(operation: ProfileOperation, state: CatalogView): readonly AuditEntry[] {
  const {
    id,
    name,
    organization_id: scope,
    regions,
    identity_types,
    requested,
    at,
    by,
    from,
    excess,
    outcome,
  } = operation;
  const ucids = outcome?.ucids ?? [];
  const after = {
    regions,
    identity_types,
    requested,
    changed: outcome === undefined ? null : ucids.length,
    not_found: outcome?.not_found ?? null,
    status: outcome === undefined ? 'begun' : outcome.complete ? 'done' : 'incomplete',
    ...excess,
  };
  const actor = actorOf(state, by, scope);
  return (ucids.length === 0 ? [id] : ucids).map((entity, nth) => ({
    id: nth === 0 ? id : nameId('audit', id, entity),
    scope_id: scope,
    at,
    action: name,
    actor,
    entity: { type: 'profile', id: entity, name: null },
    before: null,
    after,
    ...from,
  }));
}
