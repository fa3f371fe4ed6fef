import {
  type Account,
  type CatalogView,
  type FoundKey,
  includesOrganizationRole,
  type Operation,
  type Organization,
  type OrganizationRole,
  type Workspace,
  type WorkspaceRole,
} from '@tributary/core';

/** Who is calling, once the credential was verified. */
export type Caller =
  | {
      readonly kind: 'id_token';
      readonly account: Account;
      /** Epoch ms: from then on the token is taken no more. */
      readonly expiresAt: number;
      /** The scopes of the profile API that the token names; absent when it names none. */
      readonly profileScopes?: readonly string[];
    }
  | FoundKey;

/** How facts name their author. */
export function authorOf(caller: Caller): string {
  return caller.kind === 'id_token' ? caller.account.id : `key:${caller.key.id}`;
}

/** The account behind a caller: of a key the one that created it. */
export function accountOf(caller: Caller): string {
  return caller.kind === 'id_token' ? caller.account.id : caller.key.created_by;
}

/** Whether the caller is a person with an ID token and an admin or owner of the organization. */
export function administersOrganization(
  caller: Caller,
  organizationId: string,
  state: Pick<CatalogView, 'organizationRole'>,
): boolean {
  if (caller.kind !== 'id_token') return false;
  const role = state.organizationRole(caller.account.id, organizationId);
  return role !== undefined && includesOrganizationRole(role, 'admin');
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set on every route that is not public. */
    caller: Caller;
    /** Set on every route below `/workspaces/:id`. */
    workspace: Workspace;
    /** The caller's role in `workspace`; a write key has none. */
    role: WorkspaceRole | undefined;
    /** Set on every route below `/organizations/:id`. */
    organization: Organization;
    /** The caller's role in `organization`. */
    organizationRole: OrganizationRole;
  }
  interface FastifyContextConfig {
    /** What the route does, from the permission table. A route without one does not start. */
    operation?: Operation;
    /** Spoken to by SDKs made for Segment or RudderStack: where they have their credential, and what they read. */
    sdk?: true;
  }
}
