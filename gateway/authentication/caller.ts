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

/** The authenticated caller of a request. */
export type Caller =
  | {
      readonly kind: 'id_token';
      readonly account: Account;
      /** Epoch ms. */
      readonly expiresAt: number;
      /** The profile API scopes of the token; absent when it has none. */
      readonly profileScopes?: readonly string[];
    }
  | FoundKey;

/** The author of facts. */
export function authorOf(caller: Caller): string {
  return caller.kind === 'id_token' ? caller.account.id : `key:${caller.key.id}`;
}

/** The account of a caller; for a key, the account that created it. */
export function accountOf(caller: Caller): string {
  return caller.kind === 'id_token' ? caller.account.id : caller.key.created_by;
}

/** Whether the caller uses an ID token and is an admin or owner of the organization. */
export function administersOrganization(
  caller: Caller,
  organizationId: string,
  state: Pick<CatalogView, 'organizationRole'>,
): boolean {
  if (caller.kind !== 'id_token') return false;
  const role = state.organizationRole(caller.account.id, organizationId);
  return role !== undefined && includesOrganizationRole(role, 'admin');
}

/** Whether the caller is one of the people whom the configuration names, by an address that an issuer verified. */
export function isOperator(caller: Caller, operators: ReadonlySet<string>): boolean {
  if (caller.kind !== 'id_token') return false;
  const { email } = caller.account;
  return email !== null && operators.has(email);
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
    /** The operation of the route in the permission table. A route without one stops the gateway from starting. */
    operation?: Operation;
    /** Called by SDKs made for Segment or RudderStack, which send their credential and read errors in a form of their own. */
    sdk?: true;
  }
}
