import type { KeyGrant } from '../catalog/entities.ts';
import type { ClientKeyScope, OrganizationRole, WorkspaceRole } from './roles.ts';

export type CredentialKind = 'id_token' | 'api_key' | 'write_key' | 'client_key';

/** The callers that may perform an operation. */
export interface Permission {
  readonly credentials: readonly CredentialKind[];
  /**
   * Lowest sufficient role in the workspace; absent where the operation has no workspace, or a write key suffices.
   */
  readonly role?: WorkspaceRole;
  /** Lowest sufficient role in the organization; absent where the operation has none. */
  readonly organizationRole?: OrganizationRole;
  /** Required scope of the profile API: the credential must have it and the request must name it. */
  readonly scope?: ClientKeyScope;
  /** Permission that an API key needs besides its role; an admin of the organization grants it. */
  readonly grant?: KeyGrant;
  /** Also allowed for the member that the path names, whatever their role. */
  readonly self?: true;
  /** Also allowed in an archived workspace, for users. */
  readonly archived?: true;
  /** Only for operators of the installation, whom its configuration names. */
  readonly operator?: true;
  /** Public: no credential is needed or read. */
  readonly public?: true;
}

const WORKSPACE_CALLERS = ['id_token', 'api_key'] as const;

const reads = { credentials: WORKSPACE_CALLERS, role: 'viewer' } as const;
const writes = { credentials: WORKSPACE_CALLERS, role: 'editor' } as const;
const administers = { credentials: WORKSPACE_CALLERS, role: 'admin' } as const;
const managesMembers = { ...administers, grant: 'members' } as const;
const PEOPLE = ['id_token'] as const;

const belongs = { credentials: PEOPLE, organizationRole: 'member' } as const;
const governs = { credentials: PEOPLE, organizationRole: 'admin' } as const;
const PROFILE_CALLERS = ['id_token', 'client_key'] as const;
const ingests = { credentials: ['write_key'] } as const;

/** The permission table. Every route names one of these operations; a route without one does not start. */
export const PERMISSIONS = {
  'organizations.list': { credentials: PEOPLE },
  'organizations.create': { credentials: PEOPLE },
  'organizations.read': belongs,
  'organizations.update': governs,
  'profile-settings.read': belongs,
  'profile-settings.update': governs,
  'organization-notice-addresses.confirm': governs,
  'organization-members.list': belongs,
  'organization-members.create': governs,
  'organization-members.read': belongs,
  'organization-members.update': governs,
  'organization-members.delete': { ...governs, self: true },
  'client-keys.list': governs,
  'client-keys.create': governs,
  'client-keys.revoke': governs,
  'organization-audit-log.list': governs,
  'workspaces.list': { credentials: PEOPLE },
  'workspaces.create': { credentials: PEOPLE },
  'workspaces.read': { ...reads, archived: true },
  'workspaces.update': administers,
  'workspaces.archive': { ...administers, archived: true },
  'workspace-members.list': reads,
  'workspace-members.create': managesMembers,
  'workspace-members.read': reads,
  'workspace-members.update': managesMembers,
  'workspace-members.delete': { ...managesMembers, self: true },
  'api-keys.list': administers,
  'api-keys.create': { ...administers, grant: 'keys' },
  'api-keys.revoke': administers,
  'event-keys.list': reads,
  'event-keys.create': administers,
  'event-keys.revoke': administers,
  'events.ingest': ingests,
  'events.read': reads,
  'events.recent': reads,
  'sdk-settings.read': ingests,
  'sdk-measurements.take': { credentials: [], public: true },
  'sources.list': reads,
  'sources.create': writes,
  'sources.read': reads,
  'sources.update': writes,
  'sources.delete': writes,
  'events.live': reads,
  'event-contracts.list': reads,
  'event-contracts.create': writes,
  'event-contracts.read': reads,
  'event-contracts.update': writes,
  'event-contracts.archive': writes,
  'event-contracts.versions': reads,
  'event-contracts.violations': reads,
  'event-contracts.validate': reads,
  'event-contracts.infer': reads,
  'tracking-plan.read': reads,
  'tracking-plan.import': writes,
  'tracking-plan.compare': reads,
  'event-transformations.list': reads,
  'event-transformations.create': writes,
  'event-transformations.read': reads,
  'event-transformations.update': writes,
  'event-transformations.delete': writes,
  'event-transformations.test': writes,
  'event-transformations.versions': reads,
  'event-transformations.version': reads,
  'event-transformations.rollback': writes,
  'event-transformations.metrics': reads,
  'event-forwarding-rules.list': reads,
  'event-forwarding-rules.create': writes,
  'event-forwarding-rules.read': reads,
  'event-forwarding-rules.update': writes,
  'event-forwarding-rules.delete': writes,
  'event-forwarding-rules.test': reads,
  'event-forwarding-rules.dry-run': reads,
  'destination-types.list': reads,
  'destination-types.read': reads,
  'destination-types.preview': writes,
  'destination-types.dynamic-field': writes,
  'destinations.list': reads,
  'destinations.create': writes,
  'destinations.read': reads,
  'destinations.update': writes,
  'destinations.delete': writes,
  'destinations.test': writes,
  'destinations.preview': writes,
  'destinations.dynamic-field': writes,
  'destinations.hook': writes,
  'destinations.health': reads,
  'destinations.load': writes,
  'warehouse.read': reads,
  'warehouse.schema': reads,
  'warehouse.loads': reads,
  'deliveries.list': reads,
  'deliveries.read': reads,
  'deliveries.redrive': writes,
  'deliveries.discard': writes,
  'alerts.list': reads,
  'alerts.create': writes,
  'alerts.read': reads,
  'alerts.update': writes,
  'alerts.delete': writes,
  'alerts.dry-run': reads,
  'notice-addresses.confirm': writes,
  'replays.list': reads,
  'replays.create': writes,
  'replays.read': reads,
  'replays.cancel': writes,
  'event-volume.read': reads,
  'funnel.read': reads,
  'audit-log.list': { ...administers, archived: true },
  'me.read': { credentials: PEOPLE },
  'system.read': { credentials: PEOPLE, operator: true },
  'profiles.write': { credentials: PROFILE_CALLERS, scope: 'profile.write' },
  'profiles.unlink': { credentials: PROFILE_CALLERS, scope: 'profile.write' },
  'profiles.split': { credentials: PROFILE_CALLERS, scope: 'profile.write' },
  'profiles.search': { credentials: PROFILE_CALLERS, scope: 'profile.read' },
  'profiles.delete': { credentials: PROFILE_CALLERS, scope: 'profile.delete' },
} as const satisfies Record<string, Permission>;

export type Operation = keyof typeof PERMISSIONS;

export function permissionOf(operation: Operation): Permission {
  return PERMISSIONS[operation];
}

/** The callers of an operation in words: each type of credential with the lowest role or the scope it needs. */
export function describePermission(permission: Permission): string {
  if (permission.public) return 'everybody, without a credential';
  return CREDENTIAL_KINDS.filter((kind) => permission.credentials.includes(kind))
    .map((kind) => {
      const condition = conditionOf(kind, permission);
      return `${KIND_NAMES[kind]}${condition === 'yes' ? '' : ` (${condition})`}`;
    })
    .join('; ');
}

/** In the order of the references. */
export const CREDENTIAL_KINDS = ['id_token', 'api_key', 'write_key', 'client_key'] as const;
const KIND_NAMES: Readonly<Record<CredentialKind, string>> = {
  id_token: 'ID token',
  api_key: 'API key',
  write_key: 'write key',
  client_key: 'client key',
};

/** The lowest role or the scope that a type of credential needs, in words; empty where it does not suffice. */
function conditionOf(kind: CredentialKind, permission: Permission): string {
  const { credentials, role, organizationRole, scope, grant, self, archived, operator } = permission;
  if (permission.public) return 'yes, and without a credential';
  if (!credentials.includes(kind)) return '';
  if (operator) return 'an operator of the installation';
  if (scope !== undefined)
    return kind === 'id_token' ? `${scope} by role, where a claim does not narrow it` : scope;
  if (kind === 'api_key' && grant !== undefined) return `${role} with \`may_manage\` ${grant}`;
  if (kind !== 'id_token') return role ?? 'yes';
  const least =
    organizationRole !== undefined
      ? `${organizationRole} of the organization`
      : role !== undefined
        ? `${role} of the workspace`
        : 'anybody who signed in';
  return [
    least,
    ...(self ? ['or the member themselves'] : []),
    ...(archived ? ['also when archived'] : []),
  ].join(', ');
}
