import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type Catalog,
  type CatalogView,
  type FoundKey,
  type KeyCreator,
  type KeysDecision,
  keysCreatedBy,
  type Member,
  type MembersView,
  newId,
  ORGANIZATION_ROLES,
  type OrganizationMember,
  WORKSPACE_ROLES,
  type WorkspaceMember,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { accountOf, organizationRoleTooLow } from '../authentication/caller.ts';
import type { GatewayDependencies, Routes } from '../dependencies.ts';
import { notFound, permissionDenied } from '../errors/api-error.ts';
import {
  checkVersion,
  inPath,
  isUnchanged,
  type Proposal,
  propose,
  tagged,
} from '../resources/catalog-entities.ts';
import { byWord, catalogList } from '../resources/lists.ts';
import {
  closed,
  email,
  listOf,
  name,
  nullable,
  oneOf,
  operation,
  optional,
  readEmail,
  removedAs,
  shownAs,
  string,
  times,
  uuid,
} from '../resources/schemas.ts';

function memberBody<const Role extends string>(roles: readonly Role[]) {
  return closed(
    { email, role: oneOf(roles) },
    { examples: [{ email: 'ada@example.com', role: roles.at(-1) }] },
  );
}

/** Whether the keys of a member with a lower role are revoked or kept. */
const keysDecision = oneOf(
  ['revoke', 'keep'],
  'Whether API keys and client keys that the member created, and its role no longer covers, are revoked or kept. Only another account, by ID token, may keep them. Write keys stay. Default `revoke`.',
);

function memberReplacement<const Role extends string>(roles: readonly Role[]) {
  return closed({ role: oneOf(roles), keys: optional(keysDecision) }, { examples: [{ role: roles.at(-1) }] });
}

const removalQuery = closed({ keys: Type.Optional(keysDecision) });

const memberKeys = listOf(
  Type.Object({
    id: uuid,
    type: oneOf(['api_key', 'write_key', 'client_key']),
    name,
    key_prefix: Type.String(),
    workspace_id: nullable(uuid),
    organization_id: nullable(uuid),
    status: oneOf(['active', 'revoked'], 'As it is since this call.'),
  }),
  'The keys that the person made here: those that were active before.',
);

const removedMember = Type.Object({ ...removedAs('deleted').properties, keys: memberKeys });

function memberResource(roles: readonly string[], title: string) {
  return Type.Object(memberFields(roles), { title });
}

/** A member with the keys that a change of the role affected. */
function changedMember(roles: readonly string[], title: string) {
  return Type.Object({ ...memberFields(roles), keys: memberKeys }, { title: `Changed${title}` });
}

function memberFields(roles: readonly string[]) {
  return {
    id: uuid,
    organization_id: Type.Optional(uuid),
    workspace_id: Type.Optional(uuid),
    account_id: nullable(uuid),
    email: nullable(string('Of the account, or the one that was invited.')),
    role: oneOf(roles),
    status: oneOf(['active', 'pending'], 'Pending: no account with this address has signed in yet.'),
    created_by: uuid,
    ...times,
  };
}

function presentMember(
  resource: ReturnType<typeof memberResource>,
  member: Member,
  state: Pick<CatalogView, 'account'>,
): Static<ReturnType<typeof memberResource>> {
  const { account_id } = member;
  const account = account_id === null ? undefined : state.account(account_id);
  return shownAs(resource, member, {
    email: account?.email ?? member.email,
    status: account_id === null ? 'pending' : 'active',
  });
}

function presentMemberKey({ kind, key }: FoundKey): Static<typeof removedMember>['keys'][number] {
  return {
    id: key.id,
    type: kind,
    name: key.name,
    key_prefix: key.key_prefix,
    workspace_id: kind === 'client_key' ? null : key.workspace_id,
    organization_id: kind === 'client_key' ? key.organization_id : null,
    status: key.status,
  };
}

/** `/organizations/:organizationId/members` and `/workspaces/:workspaceId/members`. */
export const memberRoutes: Routes = async (app, dependencies) => {
  await app.register(routesOf(ORGANIZATION_SCOPE), dependencies);
  await app.register(routesOf(WORKSPACE_SCOPE), dependencies);
};

/** 403 when keys are kept by the member itself, or by a key: only another account may let keys outlive their creator's role. */
function checkDecision({ keys }: KeysDecision, { account_id }: Member, { caller }: FastifyRequest): void {
  if (keys === 'keep' && (caller.kind !== 'id_token' || caller.account.id === account_id))
    throw permissionDenied('keys are kept only by another account, with an ID token');
}

/** Returns a function that lists, after a change, the keys of a creator that are active or were active before. */
function trackKeys(maker: KeyCreator | undefined, catalog: Pick<Catalog, 'state'>) {
  const keysNow = () => (maker === undefined ? [] : keysCreatedBy(catalog.state, maker));
  const inactive = new Set(keysNow().flatMap(({ key }) => (key.status === 'active' ? [] : [key.id])));
  return () =>
    keysNow()
      .filter(({ key }) => !inactive.has(key.id))
      .map(presentMemberKey);
}

/** The routes of one scope. Members are added by e-mail address, also before their first sign-in. */
function routesOf<M extends Member>(scope: MemberScope<M>): FastifyPluginAsyncTypebox<GatewayDependencies> {
  const { kind, title, noun, roles } = scope;
  const path = `/${kind}s/:${kind}Id/members`;
  const resource = memberResource(roles, title);

  return async (app, dependencies) => {
    const { catalog } = dependencies;
    const members = () => scope.members(catalog.state);
    const present = (member: M) => presentMember(resource, member, catalog.state);
    const lists = catalogList<M>()({
      textOf: (member) => present(member).email ?? '',
      textDescription: 'Part of the e-mail address, in any case.',
      fields: ['created_at', 'updated_at'],
      filters: {
        role: byWord(roles, 'Only with this role.', ({ role }) => role),
        status: byWord(['active', 'pending'], 'Only of this status.', (member) => present(member).status),
      },
    });

    app.get(
      path,
      operation(`${kind}-members.list`, `list${title}s`, `List each ${noun}`, {
        querystring: lists.querystring,
        response: { 200: listOf(resource) },
      }),
      async (request, reply) => {
        const found = lists.read(request, reply, members().listing(scope.idOf(request)));
        return found.map(present);
      },
    );

    app.post(
      path,
      operation(`${kind}-members.create`, `add${title}`, `Add a ${noun}`, {
        body: memberBody(roles),
        response: { 201: resource },
      }),
      async (request, reply) => {
        const { role } = request.body;
        scope.checkGrant(request, role);
        const fields = {
          id: newId(),
          email: readEmail(request.body.email, '/email'),
          created_by: accountOf(request.caller),
        };
        await propose(request, dependencies, memberAdded(kind, fields, scope.idOf(request), role));
        return reply.code(201).send(present(tagged(reply, memberNamed(request, fields.id))));
      },
    );

    app.get(
      `${path}/:memberId`,
      operation(`${kind}-members.read`, `read${title}`, `Read a ${noun}`, {
        response: { 200: resource },
      }),
      async (request, reply) => {
        return present(tagged(reply, memberNamed(request)));
      },
    );

    app.put(
      `${path}/:memberId`,
      operation(
        `${kind}-members.update`,
        `replace${title}`,
        `Replace the role of a ${noun}`,
        { body: memberReplacement(roles), response: { 200: changedMember(roles, title) } },
        {
          patched: (request) => present(memberNamed(request)),
        },
      ),
      async (request, reply) => {
        const stored = memberNamed(request);
        const { role } = request.body;
        const decision = { keys: request.body.keys ?? 'revoke' };
        checkDecision(decision, stored, request);
        scope.checkGrant(request, stored.role);
        scope.checkGrant(request, role);
        checkVersion(request, stored);
        const affectedKeys = trackKeys(makerOf(stored, request), catalog);
        const wanted = { role } as Partial<Member>;
        const current = () => members().get(scope.idOf(request), stored.id);
        if (!(await isUnchanged<Member>(dependencies, stored, wanted, current)))
          await propose(request, dependencies, memberUpdated(kind, stored, role, decision));
        return { ...present(tagged(reply, memberNamed(request))), keys: affectedKeys() };
      },
    );

    app.delete(
      `${path}/:memberId`,
      operation(`${kind}-members.delete`, `remove${title}`, `Remove a ${noun}`, {
        querystring: removalQuery,
        response: { 200: removedMember },
      }),
      async (request) => {
        const removed = { id: inPath(request, 'memberId').toLowerCase(), status: 'deleted' } as const;
        if (members().wasRemoved(scope.idOf(request), removed.id)) return { ...removed, keys: [] };
        const stored = memberNamed(request);
        const decision = { keys: request.query.keys ?? 'revoke' };
        checkDecision(decision, stored, request);
        scope.checkGrant(request, stored.role);
        checkVersion(request, stored);
        const affectedKeys = trackKeys(makerOf(stored, request), catalog);
        await propose(request, dependencies, memberRemoved(kind, stored, decision));
        return { ...removed, keys: affectedKeys() };
      },
    );

    /** The account whose keys are affected; undefined while the invitation is pending. */
    function makerOf({ account_id: accountId }: M, request: FastifyRequest): KeyCreator | undefined {
      return accountId === null ? undefined : { accountId, [`${kind}Id`]: scope.idOf(request) };
    }

    function memberNamed(request: FastifyRequest, id = inPath(request, 'memberId')): M {
      const member = members().get(scope.idOf(request), id.toLowerCase());
      if (member === undefined) throw notFound();
      return member;
    }
  };
}

interface NewMemberFields {
  readonly id: string;
  readonly email: string;
  readonly created_by: string;
}

type ScopeKind = 'organization' | 'workspace';

export function memberAdded(
  kind: ScopeKind,
  fields: NewMemberFields,
  scopeId: string,
  role: string,
): Proposal {
  const data = { ...fields, [`${kind}_id`]: scopeId, role };
  return { type: `${kind}_member.added`, entity: fields.id, expected_version: 0, data } as Proposal;
}

/** The fact that gives a member another role. */
export function memberUpdated(
  kind: ScopeKind,
  { id, version }: Member,
  role: string,
  decision: KeysDecision,
): Proposal {
  const data = { role, ...decision };
  return { v: 2, type: `${kind}_member.updated`, entity: id, expected_version: version, data } as Proposal;
}

/** With the version that was checked: a member that became an owner meanwhile must not be removed without the right. */
function memberRemoved(kind: ScopeKind, { id, version }: Member, data: KeysDecision): Proposal {
  return { v: 2, type: `${kind}_member.removed`, entity: id, expected_version: version, data };
}

/** A kind of membership: of organizations or of workspaces. */
interface MemberScope<M extends Member> {
  readonly kind: ScopeKind;
  /** As operation ids and summaries name them, e.g. `OrganizationMember` and `member of an organization`. */
  readonly title: string;
  readonly noun: string;
  readonly roles: readonly string[];
  idOf(request: FastifyRequest): string;
  members(state: CatalogView): MembersView<M>;
  /** 403 for a caller that may not grant, change or remove this role. */
  checkGrant(request: FastifyRequest, role: string): void;
}

const ORGANIZATION_SCOPE: MemberScope<OrganizationMember> = {
  kind: 'organization',
  title: 'OrganizationMember',
  noun: 'member of an organization',
  roles: ORGANIZATION_ROLES,
  idOf: ({ organization }) => organization.id,
  members: (state) => state.organizationMembers,
  /** Only owners grant and remove the role `owner`. */
  checkGrant({ organizationRole }, role) {
    if (role === 'owner' && organizationRole !== 'owner')
      throw permissionDenied(organizationRoleTooLow('owner', organizationRole));
  },
};

const WORKSPACE_SCOPE: MemberScope<WorkspaceMember> = {
  kind: 'workspace',
  title: 'WorkspaceMember',
  noun: 'member of a workspace',
  roles: WORKSPACE_ROLES,
  idOf: ({ workspace }) => workspace.id,
  members: (state) => state.workspaceMembers,
  checkGrant() {},
};
