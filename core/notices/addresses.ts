import type { CatalogView } from '../catalog/catalog.ts';
import type { Account, Addressed, OrganizationMember, Workspace } from '../catalog/entities.ts';

/** An address for notices, and where it is set. */
export interface NoticeAddress extends Addressed {
  readonly email: string;
  readonly organizationId: string;
  /** Absent where it is set on the organization itself. */
  readonly workspaceId?: string;
}

/** The entity that an address for notices is set on. */
export interface AddressedEntity {
  readonly type: 'organization' | 'workspace' | 'destination' | 'alert';
  readonly id: string;
  /** Null for an organization. */
  readonly workspace_id: string | null;
}

/** The part of the catalog that says whether an address is confirmed. */
export type ConfirmedView = Pick<
  CatalogView,
  'organization' | 'account' | 'accountOfEmail' | 'organizationMembers' | 'workspaceMembers'
>;

type AddressView = Pick<CatalogView, 'organization' | 'workspacesIn' | 'entities'>;

/**
 * Whether mails may be sent to an address: until then only the link that confirms it is sent there. A link confirmed it for
 * the organization, or it is that of a member of the organization or workspace who has joined.
 */
export function isConfirmedAddress(
  state: ConfirmedView,
  { confirmation, email, organizationId, workspaceId }: NoticeAddress,
): boolean {
  if (confirmation == null || isConfirmedByLink(state, organizationId, email)) return true;
  const account = state.account(state.accountOfEmail(email) ?? '');
  if (account === undefined) return false;
  return (
    hasJoined(account, state.organizationMembers.ofAccount(account.id, organizationId)) ||
    (workspaceId !== undefined &&
      hasJoined(account, state.workspaceMembers.ofAccount(account.id, workspaceId)))
  );
}

export function isConfirmedByLink(
  state: Pick<CatalogView, 'organization'>,
  organizationId: string,
  email: string,
): boolean {
  return state.organization(organizationId)?.confirmed_addresses?.includes(email) === true;
}

/**
 * Whether a person created the organization, or signed in for the first time after the invitation. A person with an account
 * becomes a member without doing anything: anybody may add one of another organization.
 */
function hasJoined(
  account: Pick<Account, 'created_at'>,
  member: Pick<OrganizationMember, 'email' | 'created_at'> | undefined,
): boolean {
  if (member === undefined) return false;
  return member.email === null || Date.parse(account.created_at) >= Date.parse(member.created_at);
}

/** All addresses for notices that are set on an organization, and in its active workspaces. */
function* addressesIn(state: AddressView, organizationId: string): Generator<string> {
  const email = state.organization(organizationId)?.notification_email;
  if (email != null) yield email;
  for (const workspace of state.workspacesIn(organizationId, 'active').newestFirst())
    for (const set of addressesOfWorkspace(state, workspace)) yield set.email;
}

interface SetAddress {
  readonly email: string;
  readonly of: AddressedEntity;
}

/** The addresses for notices that are set on a workspace, its destinations and its alerts. */
export function* addressesOfWorkspace(
  state: Pick<CatalogView, 'entities'>,
  { id: workspace_id, alerts }: Pick<Workspace, 'id' | 'alerts'>,
): Generator<SetAddress> {
  if (alerts?.email != null)
    yield { email: alerts.email, of: { type: 'workspace', id: workspace_id, workspace_id } };
  for (const { id, alerts: own } of state.entities('destination', workspace_id))
    if (own?.email != null) yield { email: own.email, of: { type: 'destination', id, workspace_id } };
  for (const { id, email } of state.entities('alert', workspace_id))
    if (email != null) yield { email, of: { type: 'alert', id, workspace_id } };
}

/**
 * The confirmed addresses of an organization once a link has confirmed `email`: those that are not set anywhere any more
 * are left out, which bounds the list by the quotas. Undefined where there is nothing to confirm.
 */
export function withConfirmed(
  state: AddressView,
  organizationId: string,
  email: string,
): readonly string[] | undefined {
  const confirmed = state.organization(organizationId)?.confirmed_addresses ?? [];
  if (confirmed.includes(email)) return undefined;
  const used = new Set(addressesIn(state, organizationId));
  return used.has(email) ? [...confirmed.filter((each) => used.has(each)), email] : undefined;
}
