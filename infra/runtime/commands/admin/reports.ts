import type {
  ApiKey,
  Catalog,
  CatalogView,
  Organization,
  OrganizationMember,
  Workspace,
} from '@tributary/core';
import { type Found, type FoundKey, type Initialized, organizationsOf } from './installation-changes.ts';

/** The output of a command: text for people, and data for scripts with `--json`. */
export interface Report {
  readonly text: string;
  readonly data: object;
}

export function describeInitialized({ organization, workspace, owner, key }: Initialized): Report {
  const rows = [
    ['organization', named(organization.is), outcome(organization)],
    ['workspace', named(workspace.is), outcome(workspace)],
    ...(owner === undefined ? [] : [['owner', memberText(owner.is), outcome(owner)]]),
    ['API key', keyText(key.is), outcome(key)],
  ];
  return {
    text: `${table(rows)}${shownOnce(key)}`,
    data: {
      organization: { ...organizationData(organization.is), changed: organization.changed },
      workspace: { ...workspaceData(workspace.is), changed: workspace.changed },
      owner: owner === undefined ? null : { ...memberData(owner.is), changed: owner.changed },
      api_key: keyData(key),
    },
  };
}

export function describeMember(member: Found<OrganizationMember>, { state }: Pick<Catalog, 'state'>): Report {
  const organization = state.organization(member.is.organization_id);
  const rows = [
    ...(organization === undefined ? [] : [['organization', named(organization), '']]),
    [member.is.role, memberText(member.is, state), outcome(member)],
  ];
  return {
    text: table(rows),
    data: {
      ...memberData(member.is, state),
      organization_id: member.is.organization_id,
      changed: member.changed,
    },
  };
}

export function describeKey(key: FoundKey): Report {
  const rows = [['API key', keyText(key.is), outcome(key)]];
  return { text: `${table(rows)}${shownOnce(key)}`, data: keyData(key) };
}

/** The organizations of an installation with their people, workspaces and keys. */
interface Status {
  readonly installation: string | null;
  readonly organizations: readonly {
    readonly organization: Organization;
    readonly members: readonly object[];
    readonly workspaces: readonly { readonly workspace: Workspace; readonly keys: readonly ApiKey[] }[];
    readonly memberTexts: readonly (readonly string[])[];
  }[];
}

/** Members of an organization that are listed; the rest is counted. */
const MOST_MEMBERS = 20;

export function statusOf(state: CatalogView): Status {
  return {
    installation: state.installation ?? null,
    organizations: organizationsOf(state).map((organization) => {
      const members = state.organizationMembers.list(organization.id).toReversed().slice(0, MOST_MEMBERS);
      return {
        organization,
        members: members.map((member) => memberData(member, state)),
        memberTexts: members.map((member) => [`  ${member.role}`, memberText(member, state), '']),
        workspaces: [...state.workspacesIn(organization.id, 'active').newestFirst()]
          .toReversed()
          .map((workspace) => ({
            workspace,
            keys: state.entities('api_key', workspace.id).filter(({ status }) => status === 'active'),
          })),
      };
    }),
  };
}

export function describeStatus({ installation, organizations }: Status): Report {
  const rows = organizations.flatMap(({ organization, memberTexts, workspaces }) => [
    ['organization', named(organization), ''],
    ...memberTexts,
    ...workspaces.flatMap(({ workspace, keys }) => [
      ['  workspace', named(workspace), ''],
      ...keys.map((key) => ['    API key', keyText(key), '']),
    ]),
  ]);
  const text =
    rows.length === 0 ? 'no organization yet: tributary admin init creates the first one\n' : table(rows);
  return {
    text: `installation  ${installation ?? 'not named yet'}\n${text}`,
    data: {
      installation,
      organizations: organizations.map(({ organization, members, workspaces }) => ({
        ...organizationData(organization),
        members,
        workspaces: workspaces.map(({ workspace, keys }) => ({
          ...workspaceData(workspace),
          api_keys: keys.map(keyFields),
        })),
      })),
    },
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

function table(rows: readonly (readonly string[])[]): string {
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}
