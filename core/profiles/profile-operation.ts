import type { AuditActor, AuditEntry } from '../catalog/audit-log.ts';
import type { Catalog, CatalogView } from '../catalog/catalog.ts';
import type { FactOrigin } from '../catalog/facts.ts';
import type { EventLog, NewEntry } from '../log/event-log.ts';
import { HEADER, TOPIC } from '../log/topics.ts';
import { nameId } from '../primitives/ids.ts';
import { identityHash } from './identity/identity.ts';
import type { Identity, ProfileScope } from './profile.ts';

/** What a caller does to profiles that the audit log tells of: the verb of its entries. */
export type ProfileOperationName = 'deleted' | 'unlinked' | 'split' | 'set_aside';

/**
 * One call of the profile API that takes something away from profiles, as the topic `profiles.operations` carries it. It
 * names the types of the identities, counts and ucids, never a value: an erased identity must not live on in a log.
 */
export interface ProfileOperation {
  /** A UUID; both records of a call have the same one. */
  readonly id: string;
  readonly name: ProfileOperationName;
  readonly organization_id: string;
  readonly regions: readonly string[];
  /** The types of the identities that were named, or `ucid`. */
  readonly identity_types: readonly string[];
  /** How many different ones were named. */
  readonly requested: number;
  /** When the call was taken, ISO 8601; the same in both records. */
  readonly at: string;
  /** As of a fact: an account id, `key:<id>` of a client key, or `stage:<name>`. */
  readonly by: string;
  readonly from: FactOrigin;
  /** Absent in the record that is written before anything is changed. */
  readonly outcome?: ProfileOperationOutcome;
}

export interface ProfileOperationOutcome {
  /** Of the profiles that were changed. */
  readonly ucids: readonly string[];
  /** How many of those that were named matched nothing. */
  readonly not_found: number;
  /** False where the engine ceased to answer: more may have been changed. */
  readonly complete: boolean;
}

/**
 * That an identity of a profile joins nobody any more, as too many different users came with it. Of one identity and
 * profile it is one entry, however often it is recorded.
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

/** The record of an operation as an entry of `profiles.operations`. */
export function operationEntry(operation: ProfileOperation, catalogPosition: number): NewEntry {
  const headers = { [HEADER.catalogPosition]: String(catalogPosition) };
  return { key: operation.organization_id, value: JSON.stringify(operation), headers };
}

/** Resolves once the record is durable. Errors: `Unavailable` when that is not known; it may be written again. */
export type RecordProfileOperation = (operation: ProfileOperation) => Promise<void>;

/** Writes operations to the topic from which the `history` stage makes entries of the audit log. */
export function recordProfileOperations(
  log: Pick<EventLog, 'append'>,
  catalog: Pick<Catalog, 'position'>,
): RecordProfileOperation {
  return async (operation) => {
    await log.append(TOPIC.profileOperations, [operationEntry(operation, catalog.position)]);
  };
}

/**
 * Entries of the organization's audit log: one for each profile that was changed. A call that changed none, and one whose
 * end is not known (yet), has one that names the operation. It has the id of the first, so that the second record of a
 * call replaces what the first one said.
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
    from,
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
  };
  const actor = actorOf(operation, state);
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

function actorOf({ by, organization_id }: ProfileOperation, state: CatalogView): AuditActor {
  if (by.startsWith('stage:'))
    return { type: 'stage', id: by.slice('stage:'.length), email: null, key_prefix: null };
  const keyId = by.startsWith('key:') ? by.slice('key:'.length) : undefined;
  if (keyId === undefined)
    return { type: 'account', id: by, email: state.account(by)?.email ?? null, key_prefix: null };
  const key = state.clientKeys.get(organization_id, keyId);
  return { type: 'client_key', id: keyId, email: null, key_prefix: key?.key_prefix ?? null };
}
