import {
  type CatalogView,
  type KeyCreator,
  type KeysDecision,
  type Member,
  type MembersView,
  type Operation,
  ORGANIZATION_ROLES,
  type OrganizationMember,
  type OrganizationRole,
  WORKSPACE_ROLES,
  type WorkspaceMember,
  type WorkspaceRole,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { organizationRoleTooLow } from '../../authentication/refusal-reasons.ts';
import { permissionDenied } from '../../errors/api-error.ts';
import type { Proposal } from '../../resources/catalog-entities.ts';
import { organizationPathOf, pathOf } from '../../resources/schemas.ts';

/** The fields of a new member in both scopes. */
export interface NewMemberFields {
  readonly id: string;
  readonly email: string;
  readonly created_by: string;
}

type MembersOperation<Verb extends string> = Extract<Operation, `${string}-members.${Verb}`>;

/** A kind of membership: of organizations or of workspaces. */
export interface MemberScope<M extends Member, Role extends string> {
  readonly path: string;
  /** As operation ids and summaries name them, e.g. `OrganizationMember` and `member of an organization`. */
  readonly title: string;
  readonly noun: string;
  readonly params: ReturnType<typeof pathOf> | ReturnType<typeof organizationPathOf>;
  readonly memberParams:
    | ReturnType<typeof pathOf<'memberId'>>
    | ReturnType<typeof organizationPathOf<'memberId'>>;
  readonly roles: readonly Role[];
  readonly operations: {
    readonly [Verb in 'list' | 'create' | 'read' | 'update' | 'delete']: MembersOperation<Verb>;
  };
  idOf(request: FastifyRequest): string;
  members(state: CatalogView): MembersView<M>;
  /** 403 for a caller that may not grant, change or remove this role. */
  checkGrant(request: FastifyRequest, role: string): void;
  added(fields: NewMemberFields, scopeId: string, role: Role): Proposal;
  updated(member: M, role: Role, keys: KeysDecision): Proposal;
  /** With the version that was checked: a member that became an owner meanwhile must not be removed without the right. */
  removed(member: M, keys: KeysDecision): Proposal;
  /** The account whose keys are affected; undefined while the invitation is pending. */
  maker(member: M): KeyCreator | undefined;
}

export const ORGANIZATION_SCOPE: MemberScope<OrganizationMember, OrganizationRole> = {
  path: '/organizations/:organizationId/members',
  title: 'OrganizationMember',
  noun: 'member of an organization',
  params: organizationPathOf(),
  memberParams: organizationPathOf('memberId'),
  roles: ORGANIZATION_ROLES,
  operations: {
    list: 'organization-members.list',
    create: 'organization-members.create',
    read: 'organization-members.read',
    update: 'organization-members.update',
    delete: 'organization-members.delete',
  },
  idOf: ({ organization }) => organization.id,
  members: (state) => state.organizationMembers,
  /** Only owners grant and remove the role `owner`. */
  checkGrant({ organizationRole }, role) {
    if (role === 'owner' && organizationRole !== 'owner')
      throw permissionDenied(organizationRoleTooLow('owner', organizationRole));
  },
  added: (fields, organization_id, role) => ({
    type: 'organization_member.added',
    entity: fields.id,
    expected_version: 0,
    data: { ...fields, organization_id, role },
  }),
  updated: ({ id, version }, role, decision) => ({
    v: 2,
    type: 'organization_member.updated',
    entity: id,
    expected_version: version,
    data: { role, ...decision },
  }),
  removed: ({ id, version }, decision) => ({
    v: 2,
    type: 'organization_member.removed',
    entity: id,
    expected_version: version,
    data: decision,
  }),
  maker: ({ account_id, organization_id }) =>
    account_id === null ? undefined : { accountId: account_id, organizationId: organization_id },
};

export const WORKSPACE_SCOPE: MemberScope<WorkspaceMember, WorkspaceRole> = {
  path: '/workspaces/:workspaceId/members',
  title: 'WorkspaceMember',
  noun: 'member of a workspace',
  params: pathOf(),
  memberParams: pathOf('memberId'),
  roles: WORKSPACE_ROLES,
  operations: {
    list: 'workspace-members.list',
    create: 'workspace-members.create',
    read: 'workspace-members.read',
    update: 'workspace-members.update',
    delete: 'workspace-members.delete',
  },
  idOf: ({ workspace }) => workspace.id,
  members: (state) => state.workspaceMembers,
  checkGrant() {},
  added: (fields, workspace_id, role) => ({
    type: 'workspace_member.added',
    entity: fields.id,
    expected_version: 0,
    data: { ...fields, workspace_id, role },
  }),
  updated: ({ id, version }, role, decision) => ({
    v: 2,
    type: 'workspace_member.updated',
    entity: id,
    expected_version: version,
    data: { role, ...decision },
  }),
  removed: ({ id, version }, decision) => ({
    v: 2,
    type: 'workspace_member.removed',
    entity: id,
    expected_version: version,
    data: decision,
  }),
  maker: ({ account_id, workspace_id }) =>
    account_id === null ? undefined : { accountId: account_id, workspaceId: workspace_id },
};
