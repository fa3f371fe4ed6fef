import {
  type ApiKey,
  type CatalogView,
  iso,
  isUsable,
  KEY_GRANTS,
  type KeyGrant,
  nameId,
  newId,
  normalizeEmail,
  OPERATOR_ACCOUNT,
  ORGANIZATION_ROLES,
  type Organization,
  type OrganizationMember,
  type OrganizationRole,
  type Workspace,
  type WorkspaceRole,
} from '@tributary/core';
import {
  ApiError,
  type GatewayDependencies,
  isName,
  isRegion,
  makeKeyFields,
  ORGANIZATION_SCOPE,
  type Proposal,
  proposeAs,
} from '@tributary/gateway';
import { type StartDeadline, untilAvailable } from '../../process/await-engines.ts';
import { OperatorError } from '../../process/lifecycle.ts';

/** The author of all facts of `tributary admin`, in the audit log the operator `admin`. */
const AUTHOR = 'operator:admin';
/** The name of the key that `admin init` creates. */
const FIRST_KEY = 'operator';

export interface AdminDependencies
  extends Pick<GatewayDependencies, 'catalog' | 'changeLimits' | 'clock' | 'random'> {
  /** Until then a change that the log does not confirm is proposed again. */
  readonly deadline: StartDeadline;
}

/** Something of the installation, and whether this run created or changed it. */
export interface Found<Thing> {
  readonly is: Thing;
  readonly changed: boolean;
}

/** A key; `raw` is its text, known to the run that created it alone. */
export interface FoundKey extends Found<ApiKey> {
  readonly raw?: string;
}

export interface FirstInstallation {
  readonly organization: string;
  readonly workspace: string;
  readonly region: string;
  /** The address of the first owner; undefined for an installation with API keys alone. */
  readonly email: string | undefined;
}

export interface Initialized {
  readonly organization: Found<Organization>;
  readonly workspace: Found<Workspace>;
  /** Undefined where none was named. */
  readonly owner: Found<OrganizationMember> | undefined;
  readonly key: FoundKey;
}

/**
 * Creates the first organization with a workspace, an owner who joins at the first sign-in with the address, and an API key.
 * Ids follow from the id of the installation, so repeated and concurrent runs find what the first one created; a run that
 * was killed is finished by the next. Later runs add no owner and no key: one that was removed or revoked stays away.
 */
export async function initialize(
  { organization: name, workspace: workspaceName, region, email }: FirstInstallation,
  dependencies: AdminDependencies,
): Promise<Initialized> {
  const { catalog } = dependencies;
  const names = { organization: name, workspace: workspaceName };
  for (const [option, text] of Object.entries(names))
    if (!isName(text))
      throw new OperatorError(`--${option} must be text of 200 characters at most, on one line`);
  if (!isRegion(region)) throw new OperatorError('--region must be lower-case letters, digits and dashes');
  const address = email === undefined ? undefined : readAddress(email);
  const installation = known(catalog.state.installation);
  const ids = {
    organization: nameId('first-organization', installation),
    workspace: nameId('first-workspace', installation),
  };
  const others = organizationsOf(catalog.state).filter(({ id }) => id !== ids.organization);
  const isThere = catalog.state.organization(ids.organization) !== undefined;
  if (!isThere && others.length > 0)
    throw new OperatorError(
      `nothing was created, as this installation has organizations already (${describeAll(others)}): tributary admin status shows them, add-member and create-key work on them`,
    );
  if (!isThere) await createFirst(ids, names, region, dependencies);
  const organization = { is: known(catalog.state.organization(ids.organization)), changed: !isThere };
  const workspace = { is: known(catalog.state.workspace(ids.workspace)), changed: !isThere };
  return {
    organization,
    workspace,
    owner: address === undefined ? undefined : await firstOwner(organization.is, address, dependencies),
    key: await firstKey(workspace.is, dependencies),
  };
}

/** One fact, so that no crash leaves an organization without its workspace. Of concurrent runs, the first one wins. */
async function createFirst(
  ids: { readonly organization: string; readonly workspace: string },
  names: { readonly organization: string; readonly workspace: string },
  region: string,
  dependencies: AdminDependencies,
): Promise<void> {
  const { workspace: id, organization } = ids;
  const refused = await propose(dependencies, undefined, {
    type: 'workspace.created',
    entity: id,
    expected_version: 0,
    data: {
      workspace: { id, name: names.workspace, organization_id: organization, region, status: 'active' },
      organization: {
        id: organization,
        name: names.organization,
        regions: [region],
        notification_email: null,
      },
    },
  });
  if (refused !== undefined && refused.reason !== 'taken')
    throw refusal('creating the organization', refused);
}

/** The member with the address. Added if the organization has no members at all: the run that created it was killed. */
async function firstOwner(
  organization: Organization,
  email: string,
  dependencies: AdminDependencies,
): Promise<Found<OrganizationMember>> {
  const { state } = dependencies.catalog;
  const member = memberOf(state, organization.id, email);
  if (member !== undefined) return { is: member, changed: false };
  if (state.organizationMembers.listing(organization.id).size > 0)
    throw new OperatorError(
      `${email} is no member of ${describe(organization)}, which has others: tributary admin add-member --email ${email} --role owner adds them`,
    );
  return addMember({ organization: organization.id, email, role: 'owner' }, dependencies);
}

async function firstKey(workspace: Workspace, dependencies: AdminDependencies): Promise<FoundKey> {
  const key = dependencies.catalog.state
    .entities('api_key', workspace.id)
    .find(({ created_by, name }) => created_by === OPERATOR_ACCOUNT && name === FIRST_KEY);
  if (key !== undefined) return { is: key, changed: false };
  const wanted = {
    workspace: workspace.id,
    name: FIRST_KEY,
    role: 'admin',
    grants: [],
    replace: false,
  } as const;
  return createKey(wanted, dependencies);
}

export interface NewMember {
  /** An id; undefined for the only organization. */
  readonly organization: string | undefined;
  readonly email: string;
  readonly role: OrganizationRole;
}

/**
 * Gives a person a role in an organization, by e-mail address: at once if an account has the address, else at the first
 * sign-in with it. A member with a lower role is promoted; a higher role is left.
 */
export async function addMember(
  { organization: wanted, email: text, role }: NewMember,
  dependencies: AdminDependencies,
): Promise<Found<OrganizationMember>> {
  const { catalog } = dependencies;
  const email = readAddress(text);
  const organization = chosenOrganization(catalog.state, wanted);
  const before = memberOf(catalog.state, organization.id, email);
  if (before !== undefined && ranks(before.role) <= ranks(role)) return { is: before, changed: false };
  const proposal =
    before === undefined
      ? ORGANIZATION_SCOPE.added({ id: newId(), email, created_by: OPERATOR_ACCOUNT }, organization.id, role)
      : ORGANIZATION_SCOPE.updated(before, role, { keys: 'keep' });
  const refused = await propose(dependencies, organization.id, proposal);
  const member = memberOf(catalog.state, organization.id, email);
  if (refused !== undefined && (member === undefined || ranks(member.role) > ranks(role)))
    throw refusal(`adding ${email}`, refused);
  return { is: known(member), changed: refused === undefined };
}

export interface NewKey {
  /** An id; undefined for the only workspace. */
  readonly workspace: string | undefined;
  readonly name: string;
  readonly role: WorkspaceRole;
  readonly grants: readonly KeyGrant[];
  /** How long it is valid, ms; undefined: until it is revoked. */
  readonly expiresInMs?: number;
  /** Whether an active key of the same name is revoked, once the new one is there. */
  readonly replace: boolean;
}

/**
 * Creates an API key. An active key of the same name that an operator created is returned instead, unless it is to be
 * replaced: repeated runs do not pile up keys.
 */
export async function createKey(
  { workspace: wanted, name, role, grants, expiresInMs, replace }: NewKey,
  dependencies: AdminDependencies,
): Promise<FoundKey> {
  const { catalog, clock } = dependencies;
  if (!isName(name)) throw new OperatorError('--name must be text of 200 characters at most, on one line');
  if (grants.length > 0 && role !== 'admin') throw new OperatorError('--may-manage requires --role admin');
  const workspace = chosenWorkspace(catalog.state, wanted);
  const old = catalog.state
    .entities('api_key', workspace.id)
    .filter((key) => key.created_by === OPERATOR_ACCOUNT && key.name === name && isUsable(key, clock()));
  const [existing] = old;
  if (existing !== undefined && !replace) return { is: existing, changed: false };
  const owner = { workspaceId: workspace.id, accountId: OPERATOR_ACCOUNT };
  const { raw, fields } = makeKeyFields(owner, dependencies, 'api_key', name);
  // Version 1, as version 2 of this fact is for authors with a role in the workspace.
  const refused = await propose(dependencies, workspace.id, {
    type: 'api_key.created',
    entity: fields.id,
    expected_version: 0,
    data: {
      ...fields,
      role,
      expires_at: expiresInMs === undefined ? null : iso(clock() + expiresInMs),
      ...(grants.length > 0 && { may_manage: KEY_GRANTS.filter((grant) => grants.includes(grant)) }),
    },
  });
  const isThere = catalog.state.entity('api_key', workspace.id, fields.id) !== undefined;
  if (refused !== undefined && !isThere) throw refusal('creating the API key', refused);
  for (const { id } of old) await revoke(workspace.id, id, dependencies);
  return { is: known(catalog.state.entity('api_key', workspace.id, fields.id)), changed: true, raw };
}

async function revoke(workspaceId: string, id: string, dependencies: AdminDependencies): Promise<void> {
  const refused = await propose(dependencies, workspaceId, { type: 'api_key.revoked', entity: id, data: {} });
  if (refused !== undefined) throw refusal(`revoking the API key ${id}`, refused);
}

/** All organizations, in the order of their numbers. */
export function organizationsOf(state: CatalogView): readonly Organization[] {
  const numbers = Array.from({ length: state.organizationCount }, (_, i) => i + 1);
  return numbers.flatMap((number) => state.organizationByOrgId(number) ?? []);
}

function chosenOrganization(state: CatalogView, id: string | undefined): Organization {
  const all = organizationsOf(state);
  if (id !== undefined) {
    const named = state.organization(id.toLowerCase());
    if (named === undefined)
      throw new OperatorError(`no organization has the id ${id}: there are ${describeAll(all)}`);
    return named;
  }
  const [only, ...others] = all;
  if (only === undefined) throw new OperatorError(NOT_INITIALIZED);
  if (others.length > 0) throw new OperatorError(`--organization must name one of ${describeAll(all)}`);
  return only;
}

function chosenWorkspace(state: CatalogView, id: string | undefined): Workspace {
  const all = organizationsOf(state).flatMap(({ id: each }) => [
    ...state.workspacesIn(each, 'active').newestFirst(),
  ]);
  if (id !== undefined) {
    const named = all.find((workspace) => workspace.id === id.toLowerCase());
    if (named === undefined)
      throw new OperatorError(`no active workspace has the id ${id}: there are ${describeAll(all)}`);
    return named;
  }
  const [only, ...others] = all;
  if (only === undefined) throw new OperatorError(NOT_INITIALIZED);
  if (others.length > 0) throw new OperatorError(`--workspace must name one of ${describeAll(all)}`);
  return only;
}

const NOT_INITIALIZED = 'there is no organization with a workspace yet: tributary admin init creates them';

/** The membership of an address: of the account that has it, else the pending one. */
function memberOf(state: CatalogView, organizationId: string, email: string): OrganizationMember | undefined {
  const account = state.accountOfEmail(email);
  return account === undefined
    ? state.organizationMembers.pendingFor(email, organizationId)
    : state.organizationMembers.ofAccount(account, organizationId);
}

/** 0 for the highest role. */
function ranks(role: OrganizationRole): number {
  return ORGANIZATION_ROLES.indexOf(role);
}

function readAddress(text: string): string {
  const address = normalizeEmail(text);
  if (address === undefined) throw new OperatorError(`--email: "${text}" is not an e-mail address`);
  return address;
}

const MOST_NAMED = 5;

function describeAll(all: readonly { readonly name: string; readonly id: string }[]): string {
  if (all.length === 0) return 'none';
  const more = all.length > MOST_NAMED ? ` and ${all.length - MOST_NAMED} more` : '';
  return `${all.slice(0, MOST_NAMED).map(describe).join(', ')}${more}`;
}

function describe({ name, id }: { readonly name: string; readonly id: string }): string {
  return `${JSON.stringify(name)} (${id})`;
}

function known<Thing>(thing: Thing | undefined): Thing {
  if (thing === undefined)
    throw new OperatorError('another process changed the same at the same time: run this again');
  return thing;
}

type Refusal = NonNullable<Awaited<ReturnType<typeof proposeAs>>>;

function refusal(what: string, { reason, causes }: Refusal): OperatorError {
  const because = causes.map(({ kind, id }) => ` by ${kind} ${id}`).join(',');
  return new OperatorError(
    `${what} was refused (${reason}${because}): run this again, or see tributary admin status`,
  );
}

/**
 * Repeated with the same ids while the log does not confirm it: a fact that was appended all the same is refused as taken
 * then. Quotas hold for operators too; the error names the quota.
 */
async function propose(
  dependencies: AdminDependencies,
  scope: string | undefined,
  proposal: Proposal,
): Promise<Refusal | undefined> {
  const proposer = {
    by: AUTHOR,
    from: { address: '', request_id: newId() },
    account: OPERATOR_ACCOUNT,
    scope,
  };
  try {
    return await untilAvailable('changing the catalog', dependencies.deadline, () =>
      proposeAs(proposer, dependencies, proposal),
    );
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const fields = Object.entries(error.fields).map(([name, value]) => `${name} ${String(value)}`);
    throw new OperatorError([error.error, ...fields].join(', '), { cause: error });
  }
}
