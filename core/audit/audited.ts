import type { FactType } from '../catalog/facts.ts';
import type { CatalogState, WorkspaceEntityKind } from '../catalog/state.ts';

type EntityTypeOf<Type extends string> = Type extends `${infer Entity}.${string}` ? Entity : never;

/** What facts are about: the word before the dot of their type. */
export type AuditedType = EntityTypeOf<FactType>;

/** How the audit log finds what facts of one kind are about, and in whose logs it tells of them. */
interface Audited {
  entity(state: CatalogState, id: string): object | undefined;
  /** Workspaces and organizations; none where no log has a place for it. Asked after the fact was applied. */
  scopes(state: CatalogState, id: string): readonly (string | undefined)[];
}

const ofWorkspace = (kind: WorkspaceEntityKind): Audited => ({
  entity: (state, id) => state.entity(kind, state.workspaceOf(id) ?? '', id),
  scopes: (state, id) => [state.workspaceOf(id)],
});

/** Every kind of entity; a kind of fact without a line here does not compile. */
export const AUDITED: Readonly<Record<AuditedType, Audited>> = {
  installation: { entity: () => undefined, scopes: () => [] },
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
  api_key: ofWorkspace('api_key'),
  write_key: ofWorkspace('write_key'),
  source: ofWorkspace('source'),
  contract: ofWorkspace('contract'),
  transformation: ofWorkspace('transformation'),
  destination: ofWorkspace('destination'),
  rule: ofWorkspace('rule'),
  replay: ofWorkspace('replay'),
};

/** The kinds, for who lists them. */
export const AUDITED_TYPES = Object.keys(AUDITED) as readonly AuditedType[];

/** The entity's kind and the verb of a type of fact. */
export function partsOf(type: FactType): { readonly entity: AuditedType; readonly action: string } {
  const dot = type.indexOf('.');
  return { entity: type.slice(0, dot) as AuditedType, action: type.slice(dot + 1) };
}
