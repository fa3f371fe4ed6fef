import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import {
  type ApiKey,
  type Catalog,
  type CatalogView,
  iso,
  isUsable,
  KEY_GRANTS,
  type KeyGrant,
  messageOf,
  nameId,
  newId,
  normalizeEmail,
  OPERATOR_ACCOUNT,
  ORGANIZATION_ROLES,
  type Organization,
  type OrganizationMember,
  type OrganizationRole,
  type StorageException,
  type Workspace,
  type WorkspaceRole,
} from '@tributary/core';
import {
  ApiError,
  ChangeLimits,
  DEFAULT_REGION,
  type GatewayDependencies,
  isName,
  isRegion,
  makeKeyFields,
  memberAdded,
  memberUpdated,
  type Proposal,
  proposeAs,
} from '@tributary/gateway';
import { InvalidArgumentError } from 'commander';
import { type Environment, readConfig } from '../runtime/config/config.ts';
import { budget, duration } from '../runtime/config/setting.ts';
import { quotasOf } from '../runtime/config/settings.ts';
import { type StartDeadline, untilAvailable } from '../runtime/process/await-engines.ts';
import { embeddedFolders } from '../runtime/process/data-folder.ts';
import { OperatorError } from '../runtime/process/lifecycle.ts';
import { installationOf } from '../runtime/wiring/installation.ts';
import { provideTopics } from '../runtime/wiring/ports/event-log.ts';
import { openStoreMarks } from '../runtime/wiring/ports/stores.ts';
import { type CommandTools, listed, openLogAndCatalog, runCommand, tableText } from './command.ts';

/*
 * `tributary admin`: operations without a credential of the API, as its operator reaches the log itself. Runs beside the
 * processes of the installation, or before the first of them.
 */

interface OutputOptions {
  /** Prints JSON for scripts. */
  readonly json?: true;
}

interface FirstInstallation {
  readonly organization: string;
  readonly workspace: string;
  readonly region?: string;
  /** The address of the first owner; undefined for an installation with API keys alone. */
  readonly email?: string | undefined;
}

export interface InitOptions extends OutputOptions, FirstInstallation {
  /** False with `--no-owner`. */
  readonly owner: boolean;
}

export function adminInit(options: InitOptions, environment: Environment): Promise<number> {
  if (options.owner === (options.email === undefined))
    throw new InvalidArgumentError(
      '--email names the first owner; --no-owner leaves the installation to API keys alone',
    );
  return run('init', options, environment, async (dependencies) =>
    describeInitialized(await initialize(options, dependencies)),
  );
}

interface NewMember {
  readonly email: string;
  /** An id; undefined for the only organization. */
  readonly organization?: string | undefined;
  readonly role: OrganizationRole;
}

export interface AddMemberOptions extends OutputOptions, NewMember {}

export function adminAddMember(options: AddMemberOptions, environment: Environment): Promise<number> {
  return run('add-member', options, environment, async (dependencies) =>
    describeMember(await addMember(options, dependencies), dependencies.catalog),
  );
}

export interface CreateKeyOptions extends OutputOptions {
  readonly workspace?: string;
  readonly name: string;
  readonly role: WorkspaceRole;
  readonly mayManage?: string;
  readonly expiresIn?: string;
  readonly replace?: true;
}

export function adminCreateKey(options: CreateKeyOptions, environment: Environment): Promise<number> {
  const { workspace, name, role, mayManage, expiresIn, replace = false } = options;
  const grants = grantsOf(mayManage);
  const expiry = expiresIn === undefined ? {} : { expiresInMs: lifetimeOf(expiresIn) };
  return run('create-key', options, environment, async (dependencies) =>
    describeKey(await createKey({ workspace, name, role, grants, replace, ...expiry }, dependencies)),
  );
}

export interface SetBudgetOptions extends OutputOptions {
  readonly workspace?: string;
  readonly bytesPerHour?: string;
  readonly bytesHeld?: string;
}

export function adminSetBudget(options: SetBudgetOptions, environment: Environment): Promise<number> {
  const { workspace, bytesPerHour, bytesHeld } = options;
  if (bytesPerHour === undefined && bytesHeld === undefined)
    throw new InvalidArgumentError('--bytes-per-hour or --bytes-held names the budget');
  const budgets = {
    ...(bytesPerHour === undefined ? {} : { bytes_per_hour: bytesOf('--bytes-per-hour', bytesPerHour) }),
    ...(bytesHeld === undefined ? {} : { bytes_held: bytesOf('--bytes-held', bytesHeld) }),
  };
  return run('set-budget', options, environment, async (dependencies) =>
    describeBudget(await setBudget(workspace, budgets, dependencies)),
  );
}

/** Null: any number; undefined: as the installation. */
function bytesOf(option: string, text: string): number | null | undefined {
  if (text === 'default') return undefined;
  if (text === 'unlimited') return null;
  try {
    return budget(2 ** 60)(text);
  } catch (error) {
    throw new InvalidArgumentError(`${option} ${messageOf(error)}, or unlimited or default`);
  }
}

export function adminStatus(options: OutputOptions, environment: Environment): Promise<number> {
  return run('status', options, environment, async ({ catalog }) => describeStatus(catalog.state));
}

function grantsOf(text: string | undefined): readonly KeyGrant[] {
  const words = (text ?? '').split(',').flatMap((word) => word.trim() || []);
  return words.map((word) => {
    const grant = KEY_GRANTS.find((each) => each === word);
    if (grant === undefined) throw new InvalidArgumentError(`--may-manage takes ${KEY_GRANTS.join(',')}`);
    return grant;
  });
}

const HOUR_MS = 3_600_000;

function lifetimeOf(text: string): number {
  try {
    return duration(HOUR_MS, 3_650 * 24 * HOUR_MS)(text);
  } catch {
    throw new InvalidArgumentError('--expires-in is a time such as 12h or 90d, up to 3650d');
  }
}

type AdminCommand = 'init' | 'add-member' | 'create-key' | 'set-budget' | 'status';

async function run(
  command: AdminCommand,
  { json }: OutputOptions,
  environment: Environment,
  work: (dependencies: AdminDependencies) => Promise<Report>,
): Promise<number> {
  return runCommand(`admin ${command}`, readConfig({ LOG_LEVEL: 'warn', ...environment }), async (tools) => {
    const { text, data } = await work(await open(command, tools));
    process.stdout.write(json ? `${JSON.stringify(data, null, 2)}\n` : text);
    return 0;
  });
}

/** Opens the catalog. Only `init` creates what is missing, and only changes name the installation. */
async function open(command: AdminCommand, tools: CommandTools): Promise<AdminDependencies> {
  const { config, logger, cleanup, deadline } = tools;
  const isEmbedded = config.kafkaBrokers.length === 0;
  if (command !== 'init' && isEmbedded && !existsSync(embeddedFolders(config).log))
    throw new OperatorError(
      `${config.dataFolder} holds no installation: set TRIBUTARY_DATA_DIR to its folder, or create one with tributary admin init`,
    );
  const { log, catalog } = await openLogAndCatalog(tools, async (opened) => {
    if (command === 'init') await provideTopics(opened, config, deadline);
  });
  if (command !== 'status') {
    // Before the first organization: a new catalog beside the data of another one must not look like an old one.
    const marks = await openStoreMarks(config, logger, (mark) => cleanup.use(mark));
    await installationOf(config, { catalog, log, logger }, marks, deadline);
  }
  const changeLimits = new ChangeLimits({ quotas: quotasOf(config), elapsed: () => performance.now() });
  return { catalog, changeLimits, clock: Date.now, random: (bytes) => randomBytes(bytes), deadline };
}

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
interface Found<Thing> {
  readonly is: Thing;
  readonly changed: boolean;
}

/** A key; `raw` is its text, known to the run that created it alone. */
interface FoundKey extends Found<ApiKey> {
  readonly raw?: string;
}

/**
 * Creates the first organization with a workspace, an owner who joins at the first sign-in with the address, and an API key.
 * Ids follow from the id of the installation, so repeated and concurrent runs find what the first one created; a run that
 * was killed is finished by the next. Later runs add no owner and no key: one that was removed or revoked stays away.
 */
export async function initialize(
  { organization: name, workspace: workspaceName, region = DEFAULT_REGION, email }: FirstInstallation,
  dependencies: AdminDependencies,
) {
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
  if (!isThere) {
    // One fact, so that no crash leaves an organization without its workspace. Of concurrent runs, the first one wins.
    const { workspace: id, organization: organizationId } = ids;
    const refused = await propose(dependencies, undefined, {
      type: 'workspace.created',
      entity: id,
      expected_version: 0,
      data: {
        workspace: { id, name: workspaceName, organization_id: organizationId, region, status: 'active' },
        organization: { id: organizationId, name, regions: [region], notification_email: null },
      },
    });
    if (refused !== undefined && refused.reason !== 'taken')
      throw refusal('creating the organization', refused);
  }
  const organization = { is: known(catalog.state.organization(ids.organization)), changed: !isThere };
  const workspace = { is: known(catalog.state.workspace(ids.workspace)), changed: !isThere };
  return {
    organization,
    workspace,
    owner: address === undefined ? undefined : await firstOwner(organization.is, address, dependencies),
    key: await firstKey(workspace.is, dependencies),
  };
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
  const organization = chosen(organizationsOf(catalog.state), wanted, 'organization');
  const before = memberOf(catalog.state, organization.id, email);
  if (before !== undefined && ranks(before.role) <= ranks(role)) return { is: before, changed: false };
  const proposal =
    before === undefined
      ? memberAdded(
          'organization',
          { id: newId(), email, created_by: OPERATOR_ACCOUNT },
          organization.id,
          role,
        )
      : memberUpdated('organization', before, role, { keys: 'keep' });
  const refused = await propose(dependencies, organization.id, proposal);
  const member = memberOf(catalog.state, organization.id, email);
  if (refused !== undefined && (member === undefined || ranks(member.role) > ranks(role)))
    throw refusal(`adding ${email}`, refused);
  return { is: known(member), changed: refused === undefined };
}

interface NewKey {
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

function chosenWorkspace(state: CatalogView, id: string | undefined): Workspace {
  const all = organizationsOf(state).flatMap(({ id: each }) => [
    ...state.workspacesIn(each, 'active').newestFirst(),
  ]);
  return chosen(all, id, 'workspace');
}

/** The one with this id, else the only one. */
function chosen<Thing extends { readonly id: string; readonly name: string }>(
  all: readonly Thing[],
  id: string | undefined,
  kind: 'organization' | 'workspace',
): Thing {
  if (id !== undefined) {
    const named = all.find((one) => one.id === id.toLowerCase());
    if (named !== undefined) return named;
    const what = kind === 'workspace' ? 'active workspace' : kind;
    throw new OperatorError(`no ${what} has the id ${id}: there are ${describeAll(all)}`);
  }
  const [only, ...others] = all;
  if (only === undefined) throw new OperatorError(NOT_INITIALIZED);
  if (others.length > 0) throw new OperatorError(`--${kind} must name one of ${describeAll(all)}`);
  return only;
}

/** Undefined values are those of the installation; absent ones stay. */
type Budgets = { readonly [Name in keyof StorageException]: StorageException[Name] | undefined };

/** Sets how many bytes the events of a workspace may take; `wanted` is its id, undefined for the only one. */
async function setBudget(
  wanted: string | undefined,
  budgets: Budgets,
  dependencies: AdminDependencies,
): Promise<Found<Workspace>> {
  const { state } = dependencies.catalog;
  const { id, name, region, version, storage: before } = chosenWorkspace(state, wanted);
  const chosen = Object.entries({ ...before, ...budgets }).filter(([, bytes]) => bytes !== undefined);
  const storage: StorageException = Object.fromEntries(chosen);
  const refused = await propose(dependencies, id, {
    type: 'workspace.updated',
    entity: id,
    expected_version: version,
    data: { name, region, storage },
  });
  if (refused !== undefined) throw refusal('setting the budget', refused);
  return { is: known(dependencies.catalog.state.workspace(id)), changed: true };
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

function describeAll(all: readonly { readonly name: string; readonly id: string }[]): string {
  return all.length === 0 ? 'none' : listed(all.map(describe));
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

/** The output of a command: text for people, and data for scripts with `--json`. */
interface Report {
  readonly text: string;
  readonly data: object;
}

function describeInitialized({
  organization,
  workspace,
  owner,
  key,
}: Awaited<ReturnType<typeof initialize>>): Report {
  const rows = [
    ['organization', named(organization.is), outcome(organization)],
    ['workspace', named(workspace.is), outcome(workspace)],
    ...(owner === undefined ? [] : [['owner', memberText(owner.is), outcome(owner)]]),
    ['API key', keyText(key.is), outcome(key)],
  ];
  return {
    text: `${tableText(rows)}${shownOnce(key)}`,
    data: {
      organization: { ...organizationData(organization.is), changed: organization.changed },
      workspace: { ...workspaceData(workspace.is), changed: workspace.changed },
      owner: owner === undefined ? null : { ...memberData(owner.is), changed: owner.changed },
      api_key: keyData(key),
    },
  };
}

function describeMember(member: Found<OrganizationMember>, { state }: Pick<Catalog, 'state'>): Report {
  const organization = state.organization(member.is.organization_id);
  const rows = [
    ...(organization === undefined ? [] : [['organization', named(organization), '']]),
    [member.is.role, memberText(member.is, state), outcome(member)],
  ];
  return {
    text: tableText(rows),
    data: {
      ...memberData(member.is, state),
      organization_id: member.is.organization_id,
      changed: member.changed,
    },
  };
}

function describeKey(key: FoundKey): Report {
  const rows = [['API key', keyText(key.is), outcome(key)]];
  return { text: `${tableText(rows)}${shownOnce(key)}`, data: keyData(key) };
}

function describeBudget(workspace: Found<Workspace>): Report {
  const { storage = {} } = workspace.is;
  const rows = [['workspace', named(workspace.is), budgetText(storage)]];
  return { text: tableText(rows), data: { ...workspaceData(workspace.is), storage } };
}

function budgetText({ bytes_per_hour, bytes_held }: StorageException): string {
  const text = (bytes: number | null | undefined) =>
    bytes === undefined ? 'as the installation' : bytes === null ? 'unlimited' : `${bytes}`;
  return `bytes per hour: ${text(bytes_per_hour)}, bytes held: ${text(bytes_held)}`;
}

/** Members of an organization that are listed; the rest is counted. */
const MOST_MEMBERS = 20;

/** The organizations of an installation with their people, workspaces and keys. */
function describeStatus(state: CatalogView): Report {
  const { installation = null } = state;
  const rows: string[][] = [];
  const organizations = organizationsOf(state).map((organization) => {
    rows.push(['organization', named(organization), '']);
    const members = state.organizationMembers.list(organization.id).toReversed().slice(0, MOST_MEMBERS);
    for (const member of members) rows.push([`  ${member.role}`, memberText(member, state), '']);
    const workspaces = [...state.workspacesIn(organization.id, 'active').newestFirst()].toReversed();
    return {
      ...organizationData(organization),
      members: members.map((member) => memberData(member, state)),
      workspaces: workspaces.map((workspace) => {
        const keys = state.entities('api_key', workspace.id).filter(({ status }) => status === 'active');
        rows.push(['  workspace', named(workspace), '']);
        for (const key of keys) rows.push(['    API key', keyText(key), '']);
        return { ...workspaceData(workspace), api_keys: keys.map(keyFields) };
      }),
    };
  });
  const text =
    rows.length === 0 ? 'no organization yet: tributary admin init creates the first one\n' : tableText(rows);
  return {
    text: `installation  ${installation ?? 'not named yet'}\n${text}`,
    data: { installation, organizations },
  };
}

function organizationData({ id, org_id, name, regions }: Organization) {
  return { id, org_id, name, regions };
}

function workspaceData({ id, name, region }: Workspace) {
  return { id, name, region };
}

function memberData(member: OrganizationMember, state?: CatalogView) {
  const { id, role, account_id } = member;
  return { id, email: emailOf(member, state), role, status: account_id === null ? 'pending' : 'active' };
}

function keyFields({ id, name, key_prefix, role, may_manage = [], expires_at }: ApiKey) {
  return { id, name, key_prefix, role, may_manage, expires_at };
}

/** `key`: the raw key, null where an earlier run created it. */
function keyData({ is, changed, raw }: FoundKey) {
  return { ...keyFields(is), changed, key: raw ?? null };
}

function emailOf({ email, account_id }: OrganizationMember, state?: CatalogView): string | null {
  return state?.account(account_id ?? '')?.email ?? email;
}

function named({ name, id }: { readonly name: string; readonly id: string }): string {
  return `${name} (${id})`;
}

function memberText(member: OrganizationMember, state?: CatalogView): string {
  const address = emailOf(member, state) ?? `account ${member.account_id}`;
  return member.account_id === null ? `${address} (joins at the first sign-in with this address)` : address;
}

function keyText({ name, key_prefix, role, may_manage = [], expires_at }: ApiKey): string {
  const manages = may_manage.length === 0 ? '' : `, may manage ${may_manage.join(' and ')}`;
  const expiry = expires_at === null ? '' : `, until ${expires_at}`;
  return `${name} (${key_prefix}..., ${role}${manages}${expiry})`;
}

function outcome({ changed }: Found<unknown>): string {
  return changed ? 'created' : 'was there';
}

function shownOnce({ raw }: FoundKey): string {
  return raw === undefined
    ? '\nThe text of the API key was shown when it was created and is not stored. For a new one: tributary admin create-key --replace\n'
    : `\n${raw}\n\nThis is the API key. It is not stored and not shown again.\n`;
}
