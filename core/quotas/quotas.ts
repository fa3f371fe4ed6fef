/** What the number of a quota is counted of. */
export type QuotaScope = 'account' | 'organization' | 'workspace';

interface Quota {
  readonly of: QuotaScope;
  readonly fallback: number;
  /** What is counted, for the reference of settings. */
  readonly counts: string;
}

/**
 * Every bound on what the catalog keeps of a tenant. `_total` counts what stays after it is out of use, too: a revoked
 * key still has to be known, and an archived workspace or contract can be read.
 */
export const QUOTAS = {
  organizations: { of: 'account', fallback: 50, counts: 'Organizations that one account made' },
  account_workspaces: {
    of: 'account',
    fallback: 500,
    counts: 'Workspaces that one account made, in all organizations, archived ones too',
  },
  workspaces: { of: 'organization', fallback: 100, counts: 'Active workspaces of an organization' },
  workspaces_total: {
    of: 'organization',
    fallback: 1_000,
    counts: 'Workspaces of an organization, archived ones too',
  },
  organization_members: {
    of: 'organization',
    fallback: 1_000,
    counts: 'Members of an organization, invited ones too',
  },
  organization_invitations: {
    of: 'organization',
    fallback: 200,
    counts: 'Members of an organization that have not signed in yet',
  },
  client_keys: { of: 'organization', fallback: 100, counts: 'Active client keys of an organization' },
  client_keys_total: {
    of: 'organization',
    fallback: 2_000,
    counts: 'Client keys of an organization, revoked ones too',
  },
  catalog_characters: {
    of: 'organization',
    fallback: 64 * 1024 * 1024,
    counts:
      'Characters of JSON of all contracts, transformations (with their kept versions), rules and destinations of an organization',
  },
  workspace_members: {
    of: 'workspace',
    fallback: 1_000,
    counts: 'Members of a workspace, invited ones too',
  },
  workspace_invitations: {
    of: 'workspace',
    fallback: 200,
    counts: 'Members of a workspace that have not signed in yet',
  },
  api_keys: { of: 'workspace', fallback: 100, counts: 'Active API keys of a workspace' },
  api_keys_total: { of: 'workspace', fallback: 2_000, counts: 'API keys of a workspace, revoked ones too' },
  write_keys: { of: 'workspace', fallback: 200, counts: 'Active write keys of a workspace' },
  write_keys_total: {
    of: 'workspace',
    fallback: 2_000,
    counts: 'Write keys of a workspace, revoked ones too',
  },
  sources: { of: 'workspace', fallback: 500, counts: 'Sources of a workspace' },
  contracts: { of: 'workspace', fallback: 1_000, counts: 'Active contracts of a workspace' },
  contracts_total: {
    of: 'workspace',
    fallback: 5_000,
    counts: 'Contracts of a workspace, archived ones too',
  },
  transformations: { of: 'workspace', fallback: 500, counts: 'Transformations of a workspace' },
  rules: { of: 'workspace', fallback: 1_000, counts: 'Rules of a workspace' },
  enabled_rules: { of: 'workspace', fallback: 200, counts: 'Enabled rules of a workspace' },
  destinations: { of: 'workspace', fallback: 500, counts: 'Destinations of a workspace' },
  replays_total: { of: 'workspace', fallback: 5_000, counts: 'Replays of a workspace, ended ones too' },
} as const satisfies Readonly<Record<string, Quota>>;

export type QuotaName = keyof typeof QUOTAS;
export const QUOTA_NAMES = Object.keys(QUOTAS) as readonly QuotaName[];

export type Quotas = Readonly<Record<QuotaName, number>>;

export const DEFAULT_QUOTAS = Object.fromEntries(
  QUOTA_NAMES.map((name) => [name, QUOTAS[name].fallback]),
) as Quotas;
