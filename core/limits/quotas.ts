import type { CatalogView, WorkspaceEntities, WorkspaceEntityKind } from '../catalog/catalog.ts';
import type { Transformation } from '../catalog/entities.ts';
import type { Fact, FactType } from '../catalog/facts.ts';
import { charactersOf } from '../catalog/fold/workspace-index.ts';

type QuotaScope = 'account' | 'organization' | 'workspace';

interface Quota {
  readonly of: QuotaScope;
  readonly fallback: number;
  /** Description for the settings reference. */
  readonly counts: string;
}

function quota(of: QuotaScope, fallback: number, counts: string): Quota {
  return { of, fallback, counts };
}

/**
 * All bounds on what the catalog stores for a tenant. `_total` includes entities out of use: revoked keys must stay
 * known, and archived workspaces and contracts can be read.
 */
export const QUOTAS = {
  organizations: quota('account', 50, 'Organizations that one account made'),
  account_workspaces: quota(
    'account',
    500,
    'Workspaces that one account made, in all organizations, archived ones too',
  ),
  workspaces: quota('organization', 100, 'Active workspaces of an organization'),
  workspaces_total: quota('organization', 1_000, 'Workspaces of an organization, archived ones too'),
  organization_members: quota('organization', 1_000, 'Members of an organization, invited ones too'),
  organization_invitations: quota(
    'organization',
    200,
    'Members of an organization that have not signed in yet',
  ),
  client_keys: quota('organization', 100, 'Active client keys of an organization'),
  client_keys_total: quota('organization', 2_000, 'Client keys of an organization, revoked ones too'),
  catalog_characters: quota(
    'organization',
    64 * 1024 * 1024,
    'Characters of JSON of contracts, transformations with their versions, rules, destinations and warehouse tables of an organization',
  ),
  workspace_members: quota('workspace', 1_000, 'Members of a workspace, invited ones too'),
  workspace_invitations: quota('workspace', 200, 'Members of a workspace that have not signed in yet'),
  api_keys: quota('workspace', 100, 'Active API keys of a workspace'),
  api_keys_total: quota('workspace', 2_000, 'API keys of a workspace, revoked ones too'),
  write_keys: quota('workspace', 200, 'Active write keys of a workspace'),
  write_keys_total: quota('workspace', 2_000, 'Write keys of a workspace, revoked ones too'),
  sources: quota('workspace', 500, 'Sources of a workspace'),
  contracts: quota('workspace', 1_000, 'Active contracts of a workspace'),
  contracts_total: quota('workspace', 5_000, 'Contracts of a workspace, archived ones too'),
  transformations: quota('workspace', 500, 'Transformations of a workspace'),
  rules: quota('workspace', 1_000, 'Rules of a workspace'),
  enabled_rules: quota('workspace', 200, 'Enabled rules of a workspace'),
  destinations: quota('workspace', 500, 'Destinations of a workspace'),
  alerts: quota('workspace', 50, 'Alerts of a workspace'),
  replays_total: quota('workspace', 5_000, 'Replays of a workspace, ended ones too'),
};

export type QuotaName = keyof typeof QUOTAS;
export const QUOTA_NAMES = Object.keys(QUOTAS) as readonly QuotaName[];

export type Quotas = Readonly<Record<QuotaName, number>>;

export interface QuotaUse {
  readonly quota: QuotaName;
  /** Id of the account, organization or workspace that the quota applies to. */
  readonly scope: string;
  readonly used: number;
  readonly adds: number;
}

type FactOf<T extends FactType> = Extract<Fact, { readonly type: T }>;
type UsesOf<T extends FactType> = (fact: FactOf<T>, state: CatalogView) => readonly QuotaUse[];

const none = () => [];

type Uses = { readonly [T in FactType]: UsesOf<T> };

/** Quota use by type of fact. One that creates something without a row does not compile; changes without one do not grow. */
const USES: Partial<Uses> & Pick<Uses, Extract<FactType, `${string}.created` | `${string}.added`>> = {
  'installation.created': none,
  // Bounded by the users of the issuer.
  'account.created': none,
  'organization.created': ({ by }, state) => organizationUses(by, state),
  'workspace.created': ({ by, data: { workspace, organization } }, state) => [
    ...(organization === undefined ? [] : organizationUses(by, state)),
    oneMore('account_workspaces', by, state.createdCounts(by).workspaces),
    oneMore(
      'workspaces',
      workspace.organization_id,
      state.workspacesIn(workspace.organization_id, 'active').size,
    ),
    oneMore(
      'workspaces_total',
      workspace.organization_id,
      state.workspacesIn(workspace.organization_id).size,
    ),
  ],
  'organization_member.added': ({ data: { organization_id: id, email } }, state) => [
    oneMore('organization_members', id, state.organizationMembers.listing(id).size),
    ...(state.accountOfEmail(email) !== undefined
      ? []
      : [oneMore('organization_invitations', id, state.organizationMembers.listing(id, 'pending').size)]),
  ],
  'workspace_member.added': ({ data: { workspace_id: id, email } }, state) => [
    oneMore('workspace_members', id, state.workspaceMembers.listing(id).size),
    ...(state.accountOfEmail(email) !== undefined
      ? []
      : [oneMore('workspace_invitations', id, state.workspaceMembers.listing(id, 'pending').size)]),
  ],
  'client_key.created': ({ data: { organization_id: id } }, { clientKeys }) => [
    oneMore('client_keys', id, clientKeys.listing(id, 'active').size),
    oneMore('client_keys_total', id, clientKeys.listing(id).size),
  ],
  'api_key.created': ({ data: { workspace_id: id } }, state) => [
    oneMore('api_keys', id, state.listing('api_key', id, 'active').size),
    oneMore('api_keys_total', id, state.listing('api_key', id).size),
  ],
  'write_key.created': ({ data: { workspace_id: id } }, state) => [
    oneMore('write_keys', id, state.listing('write_key', id, 'active').size),
    oneMore('write_keys_total', id, state.listing('write_key', id).size),
  ],
  'source.created': ({ data: { workspace_id: id } }, state) => [
    oneMore('sources', id, state.listing('source', id).size),
  ],
  'contract.created': ({ data }, state) => [
    oneMore('contracts', data.workspace_id, state.listing('contract', data.workspace_id, 'active').size),
    oneMore('contracts_total', data.workspace_id, state.listing('contract', data.workspace_id).size),
    ...characters(data.workspace_id, lengthOf(data), state),
  ],
  'contract.updated': (fact, state) => growth('contract', fact, state),
  'transformation.created': ({ data }, state) => [
    oneMore('transformations', data.workspace_id, state.listing('transformation', data.workspace_id).size),
    ...characters(data.workspace_id, lengthOf(data) + programOf(data).length, state),
  ],
  'transformation.updated': (fact, state) => {
    const stored = storedOf('transformation', fact, state);
    if (stored === undefined) return [];
    const version = programOf({ ...stored, ...fact.data });
    // A changed program is kept as a version.
    return growth('transformation', fact, state, version === programOf(stored) ? 0 : version.length);
  },
  'destination.created': ({ data }, state) => [
    oneMore('destinations', data.workspace_id, state.listing('destination', data.workspace_id).size),
    ...characters(data.workspace_id, lengthOf(data), state),
  ],
  'destination.updated': (fact, state) => growth('destination', fact, state),
  // Proposed by the stage `load`, which makes no further tables of an organization over `catalog_characters`.
  'warehouse_table.created': none,
  'rule.created': ({ data }, state) => [
    oneMore('rules', data.workspace_id, state.listing('rule', data.workspace_id).size),
    ...(data.enabled ? enabledRule(data.workspace_id, state) : []),
    ...characters(data.workspace_id, lengthOf(data), state),
  ],
  'rule.updated': (fact, state) => {
    const stored = storedOf('rule', fact, state);
    if (stored === undefined) return [];
    const isEnabled = fact.data.enabled === true && !stored.enabled;
    return [...(isEnabled ? enabledRule(stored.workspace_id, state) : []), ...growth('rule', fact, state)];
  },
  'replay.created': ({ data: { workspace_id: id } }, state) => [
    oneMore('replays_total', id, state.listing('replay', id).size),
  ],
  'alert.created': ({ data: { workspace_id: id } }, state) => [
    oneMore('alerts', id, state.listing('alert', id).size),
  ],
};

/** The quota use of a fact before it is appended, computed from the current state. */
export function quotaUses(fact: Fact, state: CatalogView): readonly QuotaUse[] {
  const usesOf = (USES[fact.type] ?? none) as (fact: Fact, state: CatalogView) => readonly QuotaUse[];
  return usesOf(fact, state).filter(({ adds }) => adds > 0);
}

/** The first exceeded quota; `pending`: the use by facts that are being appended. */
export function exceededQuota(
  uses: readonly QuotaUse[],
  quotas: Quotas,
  pending: (use: QuotaUse) => number,
): QuotaUse | undefined {
  return uses.find((use) => use.used + pending(use) + use.adds > quotas[use.quota]);
}

function oneMore(quota: QuotaName, scope: string, used: number): QuotaUse {
  return { quota, scope, used, adds: 1 };
}

function organizationUses(account: string, state: CatalogView): readonly QuotaUse[] {
  return [oneMore('organizations', account, state.createdCounts(account).organizations)];
}

function enabledRule(workspaceId: string, state: CatalogView): readonly QuotaUse[] {
  return [oneMore('enabled_rules', workspaceId, state.listing('rule', workspaceId, 'enabled').size)];
}

function characters(workspaceId: string, adds: number, state: CatalogView): readonly QuotaUse[] {
  const organization = state.workspace(workspaceId)?.organization_id;
  if (organization === undefined) return [];
  return [{ quota: 'catalog_characters', scope: organization, used: state.charactersIn(organization), adds }];
}

/** The growth of an entity by a change, plus `more`. */
function growth<K extends WorkspaceEntityKind>(
  kind: K,
  fact: Fact,
  state: CatalogView,
  more = 0,
): readonly QuotaUse[] {
  const stored = storedOf(kind, fact, state);
  if (stored === undefined) return [];
  const changed = { ...stored, ...fact.data } as WorkspaceEntities[K];
  return characters(
    stored.workspace_id,
    charactersOf(kind, changed) - charactersOf(kind, stored) + more,
    state,
  );
}

function storedOf<K extends WorkspaceEntityKind>(
  kind: K,
  { entity }: Fact,
  state: CatalogView,
): WorkspaceEntities[K] | undefined {
  return state.entity(kind, state.workspaceOf(entity) ?? '', entity);
}

/** The part of a transformation that a version keeps. */
function programOf({
  source_code,
  test_input,
  test_output,
}: Pick<Transformation, 'source_code' | 'test_input' | 'test_output'>): string {
  return JSON.stringify([source_code, test_input, test_output]);
}

function lengthOf(data: object): number {
  return JSON.stringify(data).length;
}
