import { hash } from 'node:crypto';
import type { Json, JsonObject } from '../event/event.ts';
import { nameId } from '../primitives/ids.ts';
import { isSealed } from '../security/secrets.ts';
import type { CatalogView, FoundKey, WorkspaceEntityKind } from './catalog.ts';
import type { OrganizationMember, WorkspaceMember } from './entities.ts';
import type { Fact, FactType } from './facts.ts';
import { applyFact } from './fold/fold.ts';
import { keyCreatorOf, keysCreatedBy } from './fold/member-facts.ts';
import type { Members } from './fold/members.ts';
import type { CatalogState } from './fold/state.ts';
import { WORKSPACE_ENTITY_KINDS } from './fold/workspace-index.ts';

/**
 * The author of a change: a user, a key, a stage of the pipeline, an operator on the command line, or the reader of a mail
 * that opened the link in it.
 */
export const AUDIT_ACTOR_TYPES = ['account', 'api_key', 'client_key', 'stage', 'operator', 'link'] as const;
type AuditActorType = (typeof AUDIT_ACTOR_TYPES)[number];

export interface AuditActor {
  readonly type: AuditActorType;
  readonly id: string;
  /** The address of an account at that time. */
  readonly email: string | null;
  /** The start of the text of an API key or client key. */
  readonly key_prefix: string | null;
}

/**
 * One applied fact, or one operation on a profile, for users: who changed what, when and from where, with the state
 * before and after.
 */
export interface AuditEntry {
  readonly id: string;
  /** The workspace or organization that the entry is listed in. */
  readonly scope_id: string;
  /** ISO 8601 */
  readonly at: string;
  /** The verb of the fact, e.g. `updated`. */
  readonly action: string;
  readonly actor: AuditActor;
  readonly entity: { readonly type: string; readonly id: string; readonly name: string | null };
  /**
   * The entity before and after, with secrets masked; null where it did not exist. An operation on a profile has only
   * `after`, which describes the operation without profile values.
   */
  readonly before: JsonObject | null;
  readonly after: JsonObject | null;
  readonly address: string;
  readonly request_id: string;
}

/**
 * Applies the fact at `position` and returns its audit entries: one for each log that lists it, one for each pending
 * membership that it activated and one for each key that it revoked; none when the fold refused it. The same facts
 * give the same entries, ids included, on every replay.
 */
export function applyWithAudit(state: CatalogState, fact: Fact, position: number): readonly AuditEntry[] {
  const { entity: type, action } = partsOf(fact.type);
  const audited = AUDITED[type];
  const before = audited?.entity(state, fact.entity);
  const membershipChanges = watchMemberships(state, fact);
  const revokedKeys = watchRevokedKeys(state, fact);
  if (!applyFact(state, fact, position).applied) return [];
  const after = audited.entity(state, fact.entity);
  const about = { type, id: fact.entity, action, before, after };
  const own = audited
    .scopes(state, fact.entity)
    .filter((scope) => scope !== undefined)
    .map((scope) => entryOf(state, fact, about, scope, idOf(fact, position, scope)));
  const others = [...membershipChanges(), ...revokedKeys()].map((each) =>
    entryOf(state, fact, each, each.scope, idOf(fact, position, each.scope, each.id)),
  );
  return [...own, ...others];
}

interface EntityChange {
  readonly type: string;
  readonly id: string;
  readonly action: string;
  readonly before: object | undefined;
  readonly after: object | undefined;
}

function entryOf(
  state: CatalogState,
  fact: Fact,
  { type, id: entity, action, before, after }: EntityChange,
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
 * A UUID (version 8) that begins with the position, because lists order facts of one millisecond by id. The rest is a
 * hash, because a catalog that was recreated counts positions anew. `also`: the id of the changed entity, where that
 * is not the fact's own.
 */
function idOf({ type, entity, at, from }: Fact, position: number, scope: string, also?: string): string {
  const hexPosition = position.toString(16).padStart(12, '0');
  const more = also === undefined ? [] : [also];
  const hashed = nameId('audit', scope, position, type, entity, at, from.request_id, ...more);
  return `${hexPosition.slice(0, 8)}-${hexPosition.slice(8)}-8${hashed.slice(15)}`;
}

/** The fields of an author without an e-mail address and a key prefix. */
const NO_PERSON = { email: null, key_prefix: null };

/**
 * The author in `by`: an account id, or `key:`, `stage:`, `operator:` or `link:` with an id or name. `organizationId`: that
 * whose client keys may be the author.
 */
export function actorOf(
  state: Pick<CatalogView, 'account' | 'entity' | 'workspaceOf' | 'clientKeys'>,
  by: string,
  organizationId?: string,
): AuditActor {
  const colon = by.indexOf(':');
  const [prefix, id] = [by.slice(0, Math.max(0, colon)), by.slice(colon + 1)];
  if (prefix === 'key') {
    const apiKey = state.entity('api_key', state.workspaceOf(id) ?? '', id);
    const isClient = organizationId !== undefined && apiKey === undefined;
    const key = isClient ? state.clientKeys.get(organizationId, id) : apiKey;
    const type = isClient ? 'client_key' : 'api_key';
    return { type, id, ...NO_PERSON, key_prefix: key?.key_prefix ?? null };
  }
  if (prefix === 'stage' || prefix === 'operator' || prefix === 'link')
    return { type: prefix, id, ...NO_PERSON };
  return { type: 'account', id: by, ...NO_PERSON, email: state.account(by)?.email ?? null };
}

function nameOf(entity: object | undefined): string | null {
  return entity !== undefined && 'name' in entity && typeof entity.name === 'string' ? entity.name : null;
}

type EntityTypeOf<Type extends string> = Type extends `${infer Entity}.${string}` ? Entity : never;

/** The entity type of facts: the word before the dot of their type. */
export type AuditedType = EntityTypeOf<FactType>;

/** How the audit log finds the entities of one type and the logs that list them. */
interface Audited {
  entity(state: CatalogState, id: string): object | undefined;
  /** Workspaces and organizations that list the entity; none where no log does. Called after the fact was applied. */
  scopes(state: CatalogState, id: string): readonly (string | undefined)[];
}

const ofWorkspace = (kind: WorkspaceEntityKind): Audited => ({
  entity: (state, id) => state.entity(kind, state.workspaceOf(id) ?? '', id),
  scopes: (state, id) => [state.workspaceOf(id)],
});

/** All entity types; a fact of a type without a row does not compile. */
export const AUDITED: Readonly<Record<AuditedType, Audited>> = {
  installation: { entity: () => undefined, scopes: () => [] },
  // Claims and refreshes of tokens, many a day: the log lists who connected and disconnected a destination.
  connection: { entity: () => undefined, scopes: () => [] },
  topic: { entity: () => undefined, scopes: () => [] },
  account: { entity: (state, id) => state.account(id), scopes: () => [] },
  workspace: {
    entity: (state, id) => state.workspace(id),
    scopes: (state, id) => [id, state.workspace(id)?.organization_id],
  },
  workspace_member: {
    entity: (state, id) => state.workspaceMembers.get(state.workspaceMembers.scopeOf(id) ?? '', id),
    scopes: (state, id) => [state.workspaceMembers.scopeOf(id)],
  },
  organization: { entity: (state, id) => state.organization(id), scopes: (_state, id) => [id] },
  organization_member: {
    entity: (state, id) => state.organizationMembers.get(state.organizationMembers.scopeOf(id) ?? '', id),
    scopes: (state, id) => [state.organizationMembers.scopeOf(id)],
  },
  client_key: {
    entity: (state, id) => state.clientKeys.get(state.clientKeys.organizationOf(id) ?? '', id),
    scopes: (state, id) => [state.clientKeys.organizationOf(id)],
  },
  ...(Object.fromEntries(WORKSPACE_ENTITY_KINDS.map((kind) => [kind, ofWorkspace(kind)])) as Record<
    WorkspaceEntityKind,
    Audited
  >),
};

export const AUDITED_TYPES = Object.keys(AUDITED) as readonly AuditedType[];

export function partsOf(type: FactType): { readonly entity: AuditedType; readonly action: string } {
  const dot = type.indexOf('.');
  return { entity: type.slice(0, dot) as AuditedType, action: type.slice(dot + 1) };
}

/** The effect of a fact about an account on one membership that was pending for its e-mail address. */
export interface MembershipChange {
  readonly type: 'organization_member' | 'workspace_member';
  readonly scope: string;
  readonly id: string;
  /**
   * `joined`: the membership now belongs to the account. `updated`, `removed`: the account was a member already, and
   * the pending membership was merged into that one.
   */
  readonly action: 'joined' | 'updated' | 'removed';
  readonly before: object;
  readonly after: object | undefined;
}

/** Reads the state before the fact; the returned function compares it with the state after the fact was applied. */
export function watchMemberships(state: CatalogState, fact: Fact): () => readonly MembershipChange[] {
  if (fact.type !== 'account.created' && fact.type !== 'account.updated') return () => [];
  const { email } = fact.data;
  if (email === null) return () => [];
  const about = { account: fact.entity, email };
  const watches = [
    watch('organization_member', state.organizationMembers, (member) => member.organization_id, about),
    watch('workspace_member', state.workspaceMembers, (member) => member.workspace_id, about),
  ];
  return () => watches.flatMap((membershipChanges) => membershipChanges());
}

function watch<M extends OrganizationMember | WorkspaceMember>(
  type: MembershipChange['type'],
  members: Members<M>,
  scopeOf: (member: M) => string,
  { account, email }: { readonly account: string; readonly email: string },
): () => readonly MembershipChange[] {
  const before = members.pendingOf(email).flatMap((pending) => {
    const known = members.ofAccount(account, scopeOf(pending));
    return known === undefined ? [pending] : [pending, known];
  });
  return () =>
    before.flatMap((member): readonly MembershipChange[] => {
      const scope = scopeOf(member);
      const after = members.get(scope, member.id);
      if (after === member) return [];
      const isOwn = member.account_id === null && after !== undefined;
      const action = after === undefined ? 'removed' : isOwn ? 'joined' : 'updated';
      return [{ type, scope, id: member.id, action, before: member, after }];
    });
}

/** The effect of a fact about a member on one key that the member created. */
export interface RevokedKey {
  readonly type: FoundKey['kind'];
  readonly scope: string;
  readonly id: string;
  readonly action: 'revoked';
  readonly before: object;
  readonly after: object;
}

/** Reads the state before the fact; the returned function compares it with the state after the fact was applied. */
export function watchRevokedKeys(state: CatalogState, fact: Fact): () => readonly RevokedKey[] {
  const creator = keyCreatorOf(state, fact);
  if (creator === undefined) return () => [];
  const before = new Map(keysCreatedBy(state, creator).map(({ key }) => [key.id, key]));
  return () =>
    keysCreatedBy(state, creator).flatMap((found): readonly RevokedKey[] => {
      const { kind: type, key } = found;
      const old = before.get(key.id);
      if (old === undefined || old === key) return [];
      const scope = found.kind === 'client_key' ? found.key.organization_id : found.key.workspace_id;
      return [{ type, scope, id: key.id, action: 'revoked', before: old, after: key }];
    });
}

const AUDIT_MASK = '***';

/** A larger value is replaced by its size and digest, so that a page of the log stays bounded. Bytes of JSON. */
export const MAX_AUDITED_BYTES = 16 * 1024;

/** Settings with such a name are masked even where they are not sealed. */
const SECRET_NAME = /secret|password|passwd|token|authorization|credential|(api|access|private)[_-]?key/i;

/**
 * An entity as the audit log shows it: hashes, sealed values and settings with secret names are masked, large values
 * replaced.
 */
export function maskedEntity(entity: object): JsonObject {
  const plain = JSON.parse(JSON.stringify(entity)) as JsonObject;
  return Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, shown(name, value)]));
}

function shown(name: string, value: Json): Json {
  if (name === 'hash' || isSealed(value)) return AUDIT_MASK;
  return bounded(name === 'settings' ? withoutSecrets(value) : withoutSealed(value));
}

function withoutSealed(value: Json): Json {
  return deep(value, (_name, inner) => isSealed(inner));
}

function withoutSecrets(value: Json): Json {
  return deep(value, (name, inner) => isSealed(inner) || SECRET_NAME.test(name));
}

function deep(value: Json, isSecret: (name: string, value: Json) => boolean): Json {
  if (isList(value)) return value.map((one) => (isSealed(one) ? AUDIT_MASK : deep(one, isSecret)));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      isSecret(name, inner) ? AUDIT_MASK : deep(inner, isSecret),
    ]),
  );
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

function bounded(value: Json): Json {
  const text = JSON.stringify(value);
  const bytes = Buffer.byteLength(text);
  return bytes <= MAX_AUDITED_BYTES ? value : { $omitted: { bytes, sha256: hash('sha256', text) } };
}
