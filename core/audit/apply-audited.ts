import type { Fact } from '../catalog/facts.ts';
import { applyFact } from '../catalog/fold.ts';
import type { CatalogState } from '../catalog/state.ts';
import { nameId } from '../ids/ids.ts';
import { watchAdmitted } from './admitted.ts';
import type { AuditActor, AuditEntry } from './audit-entry.ts';
import { AUDITED, partsOf } from './audited.ts';
import { maskedEntity } from './masked.ts';
import { watchRevokedKeys } from './revoked-keys.ts';

/**
 * Applies the fact at `position` and tells what it did: one entry for each log it belongs in, and one for each
 * membership that became real or key that was revoked by it; none when the fold refused it. The same facts give the same entries, ids included, on every replay.
 */
export function applyAudited(state: CatalogState, fact: Fact, position: number): readonly AuditEntry[] {
  const { entity: type, action } = partsOf(fact.type);
  const audited = AUDITED[type];
  const before = audited?.entity(state, fact.entity);
  const admitted = watchAdmitted(state, fact);
  const revokedKeys = watchRevokedKeys(state, fact);
  if (!applyFact(state, fact, position).applied) return [];
  const after = audited.entity(state, fact.entity);
  const about = { type, id: fact.entity, action, before, after };
  const own = audited
    .scopes(state, fact.entity)
    .filter((scope) => scope !== undefined)
    .map((scope) => entryOf(state, fact, about, scope, idOf(fact, position, scope)));
  const others = [...admitted(), ...revokedKeys()].map((each) =>
    entryOf(state, fact, each, each.scope, idOf(fact, position, each.scope, each.id)),
  );
  return [...own, ...others];
}

/** What a fact did to one entity. */
interface Done {
  readonly type: string;
  readonly id: string;
  readonly action: string;
  readonly before: object | undefined;
  readonly after: object | undefined;
}

function entryOf(
  state: CatalogState,
  fact: Fact,
  { type, id: entity, action, before, after }: Done,
  scope: string,
  id: string,
): AuditEntry {
  return {
    id,
    scope_id: scope,
    at: fact.at,
    action,
    actor: actorOf(state, fact.by),
    entity: { type, id: entity, name: nameOf(after ?? before) },
    before: before === undefined ? null : maskedEntity(before),
    after: after === undefined ? null : maskedEntity(after),
    address: fact.from.address,
    request_id: fact.from.request_id,
  };
}

/**
 * A UUID (version 8) that begins with the position: lists put facts of one millisecond in the order of their ids. The
 * rest is a hash, because a catalog that was written anew begins to count again. `also` where the fact is not about
 * the entity itself.
 */
function idOf({ type, entity, at, from }: Fact, position: number, scope: string, also?: string): string {
  const place = position.toString(16).padStart(12, '0');
  const more = also === undefined ? [] : [also];
  const hashed = nameId('audit', scope, position, type, entity, at, from.request_id, ...more);
  return `${place.slice(0, 8)}-${place.slice(8)}-8${hashed.slice(15)}`;
}

/** `by` of a fact: an account's id, or `key:`, `stage:` or `operator:` and what is called so. */
function actorOf(state: CatalogState, by: string): AuditActor {
  const colon = by.indexOf(':');
  const [prefix, id] = [by.slice(0, Math.max(0, colon)), by.slice(colon + 1)];
  const nobody = { email: null, key_prefix: null };
  if (prefix === 'key') {
    const key = state.entity('api_key', state.workspaceOf(id) ?? '', id);
    return { type: 'api_key', id, ...nobody, key_prefix: key?.key_prefix ?? null };
  }
  if (prefix === 'stage' || prefix === 'operator') return { type: prefix, id, ...nobody };
  return { type: 'account', id: by, ...nobody, email: state.account(by)?.email ?? null };
}

function nameOf(entity: object | undefined): string | null {
  return entity !== undefined && 'name' in entity && typeof entity.name === 'string' ? entity.name : null;
}
