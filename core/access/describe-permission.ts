import type { CredentialKind, Permission } from './permissions.ts';

/** The callers of an operation, in words: each kind of credential with the least role or the scope it needs. */
export function describePermission(permission: Permission): string {
  if (permission.public) return 'everybody, without a credential';
  return CREDENTIAL_KINDS.filter((kind) => permission.credentials.includes(kind))
    .map((kind) => {
      const condition = conditionOf(kind, permission);
      return `${KIND_NAMES[kind]}${condition === 'yes' ? '' : ` (${condition})`}`;
    })
    .join('; ');
}

/** In the order in which the references name them. */
export const CREDENTIAL_KINDS = ['id_token', 'api_key', 'write_key', 'client_key'] as const;
const KIND_NAMES: Readonly<Record<CredentialKind, string>> = {
  id_token: 'ID token',
  api_key: 'API key',
  write_key: 'write key',
  client_key: 'client key',
};

/** The least role or the scope that a kind of credential needs, in words; empty where it does not suffice. */
export function conditionOf(kind: CredentialKind, permission: Permission): string {
  const { credentials, role, organizationRole, scope, grant, self, archived } = permission;
  if (permission.public) return 'yes, and without a credential';
  if (!credentials.includes(kind)) return '';
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
