import { type AuditEntry, actorOf } from './audit-log.ts';
import type { CatalogView } from './catalog.ts';
import type { FactOrigin } from './facts.ts';

/** Calls that the audit log sums up, because callers make many of them: the verb and the entity of its entries. */
export type SummedCall =
  | { readonly name: 'written'; readonly entity: 'profile' }
  | { readonly name: 'redriven' | 'discarded'; readonly entity: 'delivery' };

/**
 * The calls of one kind that a caller made within a minute at one gateway, as a record of `profiles.operations`: one at the
 * first call, and one with the sums at the end of the minute. So no caller floods the audit log. It holds no values of
 * profiles.
 */
export interface AuditedCalls {
  readonly kind: 'calls';
  /** A UUID, the same in both records. */
  readonly id: string;
  /** The workspace or organization whose audit log lists them. */
  readonly scope_id: string;
  readonly organization_id: string;
  readonly name: SummedCall['name'];
  readonly entity: SummedCall['entity'];
  /** The caller of the first call, when it was made and where from. */
  readonly by: string;
  readonly at: string;
  readonly from: FactOrigin;
  /** When the sums were made, ISO 8601; null in the first record. */
  readonly until: string | null;
  readonly calls: number;
  /** Profiles or deliveries that the calls changed. */
  readonly changed: number;
  /** Ids of the first of them. */
  readonly ids: readonly string[];
}

/** The entry of the audit log; that of the second record replaces that of the first. */
export function auditEntryOfCalls(record: AuditedCalls, state: CatalogView): AuditEntry {
  const { id, scope_id, organization_id, name, entity, by, at, from, until, calls, changed, ids } = record;
  return {
    id,
    scope_id,
    at,
    action: name,
    actor: actorOf(state, by, organization_id),
    entity: { type: entity, id: ids[0] ?? id, name: null },
    before: null,
    after: { calls, changed, ids, until, status: until === null ? 'begun' : 'done' },
    ...from,
  };
}
