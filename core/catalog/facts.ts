import type { AlertChange } from '../alerts/alert.ts';
import type { ConnectionFacts } from '../delivery/connection.ts';
import type { HealthChange } from '../delivery/destination-health.ts';
import type {
  Account,
  Alert,
  ApiKey,
  CatalogSource,
  Change,
  ClientKey,
  Contract,
  Destination,
  Draft,
  Membership,
  NewMember,
  Organization,
  OrganizationMember,
  Replay,
  Rule,
  Transformation,
  WarehouseTable,
  Workspace,
  WorkspaceMember,
  WriteKey,
} from './entities.ts';

/** Facts of version 1, by type. The rules that the fold checks for each are frozen with the version. */
export interface FactData extends ConnectionFacts {
  /** Records the id of the installation that owns this catalog, once and for good. */
  'installation.created': Record<string, never>;
  'account.created': Draft<Account>;
  /** Issuer and subject never change; only what the issuer reports about the account does. */
  'account.updated': Required<Pick<Account, 'email' | 'email_issued_at'>>;
  /** With `organization`, the organization is created too, with `owner` as its owner. */
  'workspace.created': {
    readonly workspace: Draft<Workspace>;
    readonly organization?: Draft<Omit<Organization, 'org_id'>>;
    readonly owner?: Membership;
  };
  /** Without `alerts`, `confirmation` and `storage`, the stored ones stay. */
  'workspace.updated': Pick<Workspace, 'name' | 'region' | 'alerts' | 'confirmation' | 'storage'>;
  'workspace.archived': Record<string, never>;
  'organization.created': {
    readonly organization: Draft<Omit<Organization, 'org_id'>>;
    readonly owner: Membership;
  };
  /** Optional fields that are absent stay as they are stored. */
  'organization.updated': Pick<
    Organization,
    'name' | 'regions' | 'notification_email' | 'profile_settings' | 'confirmation' | 'confirmed_addresses'
  >;
  'organization_member.added': NewMember<OrganizationMember>;
  'organization_member.updated': Pick<OrganizationMember, 'role'>;
  /** Also removes the member from the organization's workspaces. */
  'organization_member.removed': Record<string, never>;
  'workspace_member.added': NewMember<WorkspaceMember>;
  'workspace_member.updated': Pick<WorkspaceMember, 'role'>;
  'workspace_member.removed': Record<string, never>;
  'client_key.created': Draft<ClientKey>;
  'client_key.revoked': Record<string, never>;
  /** Without `expires_at`, the key never expires. */
  'api_key.created': Omit<Draft<ApiKey>, 'expires_at'> & Partial<Pick<ApiKey, 'expires_at'>>;
  'api_key.revoked': Record<string, never>;
  'write_key.created': Draft<WriteKey>;
  'write_key.revoked': Record<string, never>;
  'source.created': Draft<CatalogSource>;
  'source.updated': Change<CatalogSource>;
  'source.deleted': Record<string, never>;
  'contract.created': Draft<Contract>;
  'contract.updated': Change<Contract>;
  'contract.archived': Record<string, never>;
  'transformation.created': Draft<Transformation>;
  'transformation.updated': Change<Transformation>;
  'transformation.deleted': Record<string, never>;
  'destination.created': Draft<Destination>;
  'destination.updated': Change<Destination>;
  'destination.deleted': Record<string, never>;
  /** `expected_version` is the number of earlier health changes, so of concurrent proposals only one is applied. */
  'destination.turned': HealthChange;
  'warehouse_table.created': Draft<WarehouseTable>;
  /** The columns that are new or have another type. */
  'warehouse_table.updated': Pick<WarehouseTable, 'columns'>;
  'rule.created': Draft<Rule>;
  'rule.updated': Change<Rule>;
  'rule.deleted': Record<string, never>;
  'replay.created': Draft<Replay>;
  'replay.cancelled': Record<string, never>;
  'alert.created': Draft<Alert>;
  'alert.updated': Change<Alert>;
  'alert.deleted': Record<string, never>;
  /** `expected_version` is the number of earlier changes, so of concurrent proposals only one is applied. */
  'alert.turned': AlertChange;
  /** Appends to the topic, the fact's entity, are careful until the growth is adopted. `from`: its partitions before. */
  'topic.growth_announced': { readonly from: number; readonly partitions: number };
  /** Writers use this number of partitions from now on. */
  'topic.grown': { readonly partitions: number };
}

/** Decides about a member's API keys and client keys that the role no longer covers. */
export interface KeysDecision {
  readonly keys: 'revoke' | 'keep';
}

/**
 * Facts of version 2. Facts about members also decide about the member's keys; in version 1 all keys stay. Keys are
 * created only while the author is an admin at the position of the fact (`missing` otherwise). An installation of version 2
 * has no process of a release that cannot read records that refer to others; one of version 1 becomes one by a second fact with
 * its id.
 */
interface FactDataV2 {
  'installation.created': FactData['installation.created'];
  'organization_member.updated': FactData['organization_member.updated'] & KeysDecision;
  'organization_member.removed': KeysDecision;
  'workspace_member.updated': FactData['workspace_member.updated'] & KeysDecision;
  'workspace_member.removed': KeysDecision;
  'client_key.created': FactData['client_key.created'];
  'api_key.created': FactData['api_key.created'];
}

export type FactType = keyof FactData;

/** The origin of a fact: the caller's address and the request id. */
export interface FactOrigin {
  readonly address: string;
  readonly request_id: string;
}

/**
 * One entry of the catalog topic. `expected_version` is the version of `entity` that the author read: 0 to create
 * one, absent where the change applies to any version (revocations).
 */
export type Fact =
  | { readonly [T in FactType]: Versioned<1, T, FactData[T]> }[FactType]
  | { readonly [T in keyof FactDataV2]: Versioned<2, T, FactDataV2[T]> }[keyof FactDataV2];

interface Versioned<Version extends number, Type extends FactType, Data> {
  readonly v: Version;
  readonly type: Type;
  readonly entity: string;
  readonly expected_version?: number;
  readonly data: Data;
  /**
   * The author: an account id, `key:<id>` of an API key, `stage:<name>`, `operator:<command>`, or `link:<id>` for the
   * reader of a mail that opened its link.
   */
  readonly by: string;
  readonly from: FactOrigin;
  /** ISO 8601 */
  readonly at: string;
}

const TYPES_OF_V2: Readonly<Record<keyof FactDataV2, true>> = {
  'installation.created': true,
  'organization_member.updated': true,
  'organization_member.removed': true,
  'workspace_member.updated': true,
  'workspace_member.removed': true,
  'client_key.created': true,
  'api_key.created': true,
};

export function isKnownVersion({ v, type }: { readonly v: number; readonly type: string }): boolean {
  return v === 1 || (v === 2 && Object.hasOwn(TYPES_OF_V2, type));
}

/**
 * In `created_by` of what an operator created on the command line: no account has this id. The author in `by` is
 * `operator:<command>`.
 */
export const OPERATOR_ACCOUNT = '00000000-0000-0000-0000-000000000000';

/** The decision of the fold about a fact. */
export type Verdict =
  | { readonly applied: true; readonly position: number }
  | { readonly applied: false; readonly conflict: ConflictReason };

export type ConflictReason =
  /** The entity is not at the expected version. */
  | 'version'
  /** An id, a key hash, a contract's (type, name) pair or a person's membership exists. */
  | 'taken'
  /** An entity that it refers to is missing, revoked, archived or deleted. */
  | 'missing'
  /** An enabled rule or an active write key refers to it; of a region: a workspace is in it. */
  | 'in_use'
  /** The organization would be left without an owner. */
  | 'last_owner';
