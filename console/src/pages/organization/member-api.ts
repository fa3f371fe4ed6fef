import {
  api,
  dataOf,
  type Page,
  pageOf,
  type Schemas,
  type Versioned,
  versionedOf,
} from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import type { MembersFilter } from './search.ts';

/** A member of an organization or of a workspace. */
export interface Member {
  readonly id: string;
  readonly account_id: string | null;
  readonly email: string | null;
  readonly role: string;
  readonly status: 'active' | 'pending';
  readonly created_at: string;
}

/** A key that a member created. */
export type MemberKey = Schemas['ChangedWorkspaceMember']['keys'][number];

export type KeysDecision = 'revoke' | 'keep';

export interface RoleText<Role extends string = string> {
  readonly role: Role;
  readonly text: string;
}

/** The members of one organization or workspace, for components that show either. */
export interface MemberApi {
  readonly scope: 'organization' | 'workspace';
  readonly id: string;
  readonly queryKey: readonly unknown[];
  /** From the least to the most permissions. */
  readonly roles: readonly RoleText[];
  /** The effect of a change or removal on the keys of the person. */
  readonly keysText: string;
  list(filter: MembersFilter, signal: AbortSignal): Promise<Page<Member>>;
  read(memberId: string): Promise<Versioned<Member>>;
  add(body: { readonly email: string; readonly role: string }): Promise<Member>;
  change(
    memberId: string,
    etag: string,
    role: string,
    keys: KeysDecision,
  ): Promise<Versioned<Member & KeysOfMember>>;
  remove(memberId: string, keys: KeysDecision): Promise<KeysOfMember>;
}

interface KeysOfMember {
  readonly keys: readonly MemberKey[];
}

type OrganizationRole = Schemas['OrganizationMember']['role'];
type WorkspaceRole = Schemas['WorkspaceMember']['role'];

const PAGE = 50;
const ORGANIZATION_ROLES: readonly RoleText<OrganizationRole>[] = [
  {
    role: 'member',
    text: 'Sees the organization and the profiles; in a workspace only what they are added to.',
  },
  { role: 'admin', text: 'Admin of every workspace; members, client keys, profile settings, audit log.' },
  { role: 'owner', text: 'As an admin, and decides who is an owner. One always stays.' },
];
const WORKSPACE_ROLES: readonly RoleText<WorkspaceRole>[] = [
  { role: 'viewer', text: 'Reads everything but keys of programs and the audit log. Changes nothing.' },
  {
    role: 'editor',
    text: 'Changes contracts, transformations, destinations, rules; redrives deliveries; writes profiles.',
  },
  { role: 'admin', text: 'Also keys, members, the audit log, deletion of profiles, the workspace itself.' },
];

export function organizationMembers(organizationId: string): MemberApi {
  const path = { organizationId };
  const one = (memberId: string) => ({ organizationId, memberId });
  return {
    scope: 'organization',
    id: organizationId,
    queryKey: ['members', organizationId],
    roles: ORGANIZATION_ROLES,
    keysText:
      'API keys and client keys that the person created and that their role no longer covers are revoked at once, unless you keep them. Write keys stay.',
    list: ({ q, sort, cursor, role, status }, signal) =>
      pageOf(
        api.GET('/api/v1/organizations/{organizationId}/members', {
          params: {
            path,
            query: {
              ...pageQuery({ q, cursor }),
              ...(sort && { sort: sort as '-created_at' }),
              ...(role && { role: role as OrganizationRole }),
              ...(status && { status }),
            },
          },
          signal,
        }),
      ),
    read: (memberId) =>
      versionedOf(
        api.GET('/api/v1/organizations/{organizationId}/members/{memberId}', {
          params: { path: one(memberId) },
        }),
      ),
    add: ({ email, role }) =>
      dataOf(
        api.POST('/api/v1/organizations/{organizationId}/members', {
          params: { path },
          body: { email, role: role as OrganizationRole },
        }),
      ),
    change: (memberId, etag, role, keys) =>
      versionedOf(
        api.PUT('/api/v1/organizations/{organizationId}/members/{memberId}', {
          params: { path: one(memberId), header: { 'If-Match': etag } },
          body: { role: role as OrganizationRole, keys },
        }),
      ),
    remove: (memberId, keys) =>
      dataOf(
        api.DELETE('/api/v1/organizations/{organizationId}/members/{memberId}', {
          params: { path: one(memberId), query: { keys } },
        }),
      ),
  };
}

export function workspaceMembers(workspaceId: string): MemberApi {
  const { path, header } = workspacePath(workspaceId);
  const one = (memberId: string) => ({ workspaceId, memberId });
  return {
    scope: 'workspace',
    id: workspaceId,
    queryKey: ['members', workspaceId],
    roles: WORKSPACE_ROLES,
    keysText:
      'API keys that the person created here and that their role no longer covers are revoked at once, unless you keep them. Write keys stay.',
    list: ({ q, sort, cursor, role, status }, signal) =>
      pageOf(
        api.GET('/api/v1/workspaces/{workspaceId}/members', {
          params: {
            path,
            header,
            query: {
              ...pageQuery({ q, cursor }),
              ...(sort && { sort: sort as '-created_at' }),
              ...(role && { role: role as WorkspaceRole }),
              ...(status && { status }),
            },
          },
          signal,
        }),
      ),
    read: (memberId) =>
      versionedOf(
        api.GET('/api/v1/workspaces/{workspaceId}/members/{memberId}', {
          params: { path: one(memberId), header },
        }),
      ),
    add: ({ email, role }) =>
      dataOf(
        api.POST('/api/v1/workspaces/{workspaceId}/members', {
          params: { path, header },
          body: { email, role: role as WorkspaceRole },
        }),
      ),
    change: (memberId, etag, role, keys) =>
      versionedOf(
        api.PUT('/api/v1/workspaces/{workspaceId}/members/{memberId}', {
          params: { path: one(memberId), header: { ...header, 'If-Match': etag } },
          body: { role: role as WorkspaceRole, keys },
        }),
      ),
    remove: (memberId, keys) =>
      dataOf(
        api.DELETE('/api/v1/workspaces/{workspaceId}/members/{memberId}', {
          params: { path: one(memberId), header, query: { keys } },
        }),
      ),
  };
}

function pageQuery({ q, cursor }: { readonly q: string | undefined; readonly cursor: string | undefined }) {
  return { limit: PAGE, count: 'true' as const, ...(q && { q }), ...(cursor && { cursor }) };
}
