import {
  effectiveRole,
  ORGANIZATION_ROLES,
  type OrganizationRole,
  WORKSPACE_ROLES,
  type WorkspaceRole,
} from '../../access/roles.ts';
import type { EventType } from '../../event/event.ts';
import type { TopicLayout } from '../../log/layout.ts';
import type { CatalogView, FoundKey, WorkspaceEntities, WorkspaceEntityKind } from '../catalog.ts';
import type {
  Account,
  Contract,
  Destination,
  Organization,
  OrganizationMember,
  Rule,
  Transformation,
  Workspace,
  WorkspaceMember,
} from '../entities.ts';
import { ClientKeys } from './client-keys.ts';
import {
  type CountedListing,
  entitiesOf,
  GroupedOrder,
  type Listing,
  mergeListings,
  NONE,
  type Table,
} from './creation-order.ts';
import { Members } from './members.ts';
import { TransformationVersions } from './transformation-versions.ts';
import {
  type ContractEra,
  charactersOf,
  eraAt,
  pairKey,
  pastContracts,
  WorkspaceIndex,
  withoutEras,
} from './workspace-index.ts';

/** The state that the fold builds. Only the files of this folder call the methods that change it. */
export class CatalogState implements CatalogView {
  /** One id at most. */
  readonly #installation = new Set<string>();
  /** Forms of records that all processes of the installation can read. */
  readonly #formats = new Set<string>();
  readonly #layouts = new Map<string, TopicLayout>();
  readonly #accounts = new Map<string, Account>();
  /** Ids of accounts by e-mail address, in the order in which they got the address. */
  readonly #accountsOfEmail = new Map<string, Set<string>>();
  readonly #organizations = new Map<string, Organization>();
  /** Ids of organizations by `org_id`. Derived when first read, because rows do not hold it. */
  readonly #organizationNumbers = new Map<number, string>();
  readonly #workspaces = new Map<string, Workspace>();
  readonly #workspacesOfOrganization = new Map<string, GroupedOrder<Workspace>>();
  readonly #workspacesMade = new Map<string, number>();
  /** Derived together with the organization numbers. */
  readonly #organizationsMade = new Map<string, number>();
  readonly #characters = new Map<string, number>();
  readonly #indexes = new Map<string, WorkspaceIndex>();
  readonly #keys = new Map<string, FoundKey>();
  readonly #workspaceOf = new Map<string, string>();
  readonly organizationMembers = new Members<OrganizationMember>(
    ORGANIZATION_ROLES,
    (member) => member.organization_id,
    (id) => this.#organizations.get(id),
  );
  readonly workspaceMembers = new Members<WorkspaceMember>(
    WORKSPACE_ROLES,
    (member) => member.workspace_id,
    (id) => this.#workspaces.get(id),
  );
  readonly clientKeys = new ClientKeys();
  readonly transformationVersions = new TransformationVersions();

  get installation(): string | undefined {
    const [id] = this.#installation;
    return id;
  }

  putInstallation(id: string): void {
    this.#installation.add(id);
  }

  get isUpgraded(): boolean {
    return this.#formats.has('references');
  }

  putFormat(name: 'references'): void {
    this.#formats.add(name);
  }

  get layouts(): ReadonlyMap<string, TopicLayout> {
    return this.#layouts;
  }

  putLayout(topic: string, layout: TopicLayout): void {
    this.#layouts.set(topic, layout);
  }

  account(id: string): Account | undefined {
    return this.#accounts.get(id);
  }

  organization(id: string): Organization | undefined {
    return this.#organizations.get(id);
  }

  organizationByOrgId(orgId: number): Organization | undefined {
    this.#readOrganizations();
    return this.organization(this.#organizationNumbers.get(orgId) ?? '');
  }

  /** Derives the indexes after a start from rows. Organizations are never removed, and keep number and author. */
  #readOrganizations(): void {
    if (this.#organizationNumbers.size === this.#organizations.size) return;
    for (const organization of this.#organizations.values()) this.#countOrganization(organization);
  }

  #countOrganization({ id, org_id, created_by }: Organization): void {
    if (this.#organizationNumbers.has(org_id)) return;
    this.#organizationNumbers.set(org_id, id);
    if (created_by !== undefined)
      this.#organizationsMade.set(created_by, (this.#organizationsMade.get(created_by) ?? 0) + 1);
  }

  createdCounts(accountId: string) {
    this.#readOrganizations();
    const organizations = this.#organizationsMade.get(accountId) ?? 0;
    return { organizations, workspaces: this.#workspacesMade.get(accountId) ?? 0 };
  }

  get organizationCount(): number {
    return this.#organizations.size;
  }

  organizationRole(accountId: string, organizationId: string): OrganizationRole | undefined {
    return this.organizationMembers.ofAccount(accountId, organizationId)?.role;
  }

  organizationListing(accountId: string): Listing<Organization> {
    return entitiesOf(this.organizationMembers.scopeListing(accountId), (id) => this.#organizations.get(id));
  }

  workspace(id: string): Workspace | undefined {
    return this.#workspaces.get(id);
  }

  workspaceIds(): Iterable<string> {
    return this.#workspaces.keys();
  }

  workspaceRole(accountId: string, workspaceId: string): WorkspaceRole | undefined {
    const workspace = this.#workspaces.get(workspaceId);
    if (workspace === undefined) return undefined;
    return effectiveRole(
      this.organizationRole(accountId, workspace.organization_id),
      this.workspaceMembers.ofAccount(accountId, workspaceId)?.role,
    );
  }

  workspaceListing(accountId: string, status?: Workspace['status']): Listing<Workspace> {
    const organizations = this.organizationMembers
      .scopesOf(accountId)
      .filter((id) => effectiveRole(this.organizationRole(accountId, id), undefined) !== undefined)
      .map((id) => this.workspacesIn(id, status));
    const others = entitiesOf(this.workspaceMembers.scopeListing(accountId), (id) => {
      const workspace = this.#workspaces.get(id);
      return status === undefined || workspace?.status === status ? workspace : undefined;
    });
    return mergeListings([...organizations, others]);
  }

  workspacesIn(organizationId: string, status?: Workspace['status']): CountedListing<Workspace> {
    const order = this.#workspacesOfOrganization.get(organizationId);
    if (order === undefined) return NONE;
    return status === undefined ? order.all : order.group(status);
  }

  keyByHash(hash: string): FoundKey | undefined {
    const known = this.#keys.get(hash);
    if (known !== undefined) return known;
    const key = this.clientKeys.byHash(hash);
    return key && { kind: 'client_key', key };
  }

  entity<K extends WorkspaceEntityKind>(
    kind: K,
    workspaceId: string,
    id: string,
  ): WorkspaceEntities[K] | undefined {
    return this.#indexes.get(workspaceId)?.tables[kind].get(id);
  }

  entities<K extends WorkspaceEntityKind>(kind: K, workspaceId: string): readonly WorkspaceEntities[K][] {
    const table = this.#indexes.get(workspaceId)?.tables[kind];
    return table === undefined ? [] : [...table.values()].reverse();
  }

  listing<K extends WorkspaceEntityKind>(
    kind: K,
    workspaceId: string,
    group?: string,
  ): CountedListing<WorkspaceEntities[K]> {
    return this.#indexes.get(workspaceId)?.listing(kind, group) ?? NONE;
  }

  charactersIn(organizationId: string): number {
    return this.#characters.get(organizationId) ?? 0;
  }

  wasDeleted(kind: WorkspaceEntityKind, workspaceId: string, id: string): boolean {
    return this.#indexes.get(workspaceId)?.deleted.has(`${kind}:${id}`) ?? false;
  }

  destination(id: string): Destination | undefined {
    return this.entity('destination', this.#workspaceOf.get(id) ?? '', id);
  }

  transformation(id: string): Transformation | undefined {
    return this.entity('transformation', this.#workspaceOf.get(id) ?? '', id);
  }

  enabledRules(workspaceId: string): readonly Rule[] {
    return this.#indexes.get(workspaceId)?.enabledRules ?? [];
  }

  contractAt(workspaceId: string, type: EventType, name: string, position: number): Contract | undefined {
    const eras = this.#indexes.get(workspaceId)?.eras;
    if (eras === undefined) return undefined;
    const exact = eraAt(eras.get(pairKey(type, name)), position);
    return exact ?? (name === '' ? undefined : eraAt(eras.get(pairKey(type, '')), position));
  }

  contractVersion(workspaceId: string, id: string, version: number): Contract | undefined {
    const current = this.entity('contract', workspaceId, id);
    if (current?.version === version) return current;
    for (const past of this.pastContracts(workspaceId))
      if (past.id === id && past.version === version) return past;
    return undefined;
  }

  pastContracts(workspaceId: string): Iterable<Contract> {
    const index = this.#indexes.get(workspaceId);
    return index === undefined ? [] : pastContracts(index.eras.values(), index.tables.contract);
  }

  workspaceOf(id: string): string | undefined {
    return this.#workspaceOf.get(id);
  }

  hasKey(hash: string): boolean {
    return this.keyByHash(hash) !== undefined;
  }

  /** The first account with an e-mail address gets the memberships that are pending for it. */
  putAccount(account: Account): void {
    const before = this.#accounts.get(account.id)?.email ?? null;
    this.#accounts.set(account.id, account);
    if (account.email === before) return;
    if (before !== null) this.#forgetEmail(before, account.id);
    if (account.email === null) return;
    const others = this.#accountsOfEmail.get(account.email) ?? new Set<string>();
    this.#accountsOfEmail.set(account.email, others.add(account.id));
    this.organizationMembers.activatePending(account);
    this.workspaceMembers.activatePending(account);
  }

  /** Removes empty sets, so that the state equals one that was read from rows. */
  #forgetEmail(email: string, accountId: string): void {
    const accounts = this.#accountsOfEmail.get(email);
    accounts?.delete(accountId);
    if (accounts?.size === 0) this.#accountsOfEmail.delete(email);
  }

  accountOfEmail(email: string): string | undefined {
    return this.#accountsOfEmail.get(email)?.values().next().value;
  }

  putOrganization(organization: Organization): void {
    this.#readOrganizations();
    this.#organizations.set(organization.id, organization);
    this.#countOrganization(organization);
  }

  putWorkspace(workspace: Workspace): void {
    const { id, organization_id, created_by } = workspace;
    const before = this.#workspaces.get(id);
    const siblings =
      this.#workspacesOfOrganization.get(organization_id) ??
      new GroupedOrder<Workspace>((each) => each.status);
    siblings.put(workspace, before);
    this.#workspaces.set(id, workspace);
    if (before !== undefined) return;
    this.#workspacesOfOrganization.set(organization_id, siblings);
    this.#indexes.set(id, new WorkspaceIndex());
    if (created_by !== undefined)
      this.#workspacesMade.set(created_by, (this.#workspacesMade.get(created_by) ?? 0) + 1);
  }

  put<K extends WorkspaceEntityKind>(kind: K, entity: WorkspaceEntities[K]): void {
    const index = this.#indexes.get(entity.workspace_id);
    if (index === undefined) throw new Error(`workspace ${entity.workspace_id} is not in the catalog`);
    index.put(kind, entity);
    this.#workspaceOf.set(entity.id, entity.workspace_id);
    this.weigh(kind, entity);
    // One map look-up, because every event needs its write key.
    if (kind === 'api_key' || kind === 'write_key') {
      const known = { kind, key: entity } as unknown as FoundKey;
      this.#keys.set(known.key.hash, known);
    }
  }

  remove(kind: WorkspaceEntityKind, workspaceId: string, id: string): void {
    if (this.#indexes.get(workspaceId)?.remove(kind, id)) this.#weighAs(workspaceId, id, 0);
  }

  /** Updates the size of an entity after it or its past versions changed. */
  weigh<K extends WorkspaceEntityKind>(kind: K, entity: WorkspaceEntities[K]): void {
    const { id, workspace_id } = entity;
    const past = kind === 'transformation' ? this.transformationVersions.charactersOf(id) : 0;
    this.#weighAs(workspace_id, id, charactersOf(kind, entity) + past);
  }

  #weighAs(workspaceId: string, id: string, characters: number): void {
    const organizationId = this.#workspaces.get(workspaceId)?.organization_id ?? '';
    const grown = this.#indexes.get(workspaceId)?.weigh(id, characters) ?? 0;
    if (grown !== 0) this.#characters.set(organizationId, this.charactersIn(organizationId) + grown);
  }

  activeContract(workspaceId: string, type: EventType, name: string): Contract | undefined {
    return this.#indexes.get(workspaceId)?.eras.get(pairKey(type, name))?.at(-1)?.contract;
  }

  /**
   * Begins an era: from its position on, its contract evaluates events of this type and name (undefined: none does).
   */
  startEra(workspaceId: string, type: EventType, name: string, era: ContractEra): void {
    const eras = this.#indexes.get(workspaceId)?.eras;
    if (eras === undefined) return;
    const key = pairKey(type, name);
    const list = eras.get(key) ?? [];
    list.push(era);
    eras.set(key, list);
  }

  /**
   * Drops the eras that ended before `before` (ISO 8601). No event that old should still be evaluated; if one is, the
   * oldest kept contract evaluates it.
   */
  forgetEras(before: string): void {
    for (const { eras } of this.#indexes.values()) {
      for (const [pair, list] of eras) eras.set(pair, withoutEras(list, before));
    }
  }

  putDeleted(kind: WorkspaceEntityKind, workspaceId: string, id: string): void {
    this.#indexes.get(workspaceId)?.deleted.add(`${kind}:${id}`);
    this.#workspaceOf.set(id, workspaceId);
  }

  /** Everything that belongs to workspaces, for `core/catalog/rows.ts` only. */
  get indexes(): ReadonlyMap<string, WorkspaceIndex> {
    return this.#indexes;
  }

  get workspaces(): ReadonlyMap<string, Workspace> {
    return this.#workspaces;
  }

  /**
   * Everything else by name, as nested maps and sets, for `core/catalog/rows.ts` only. A field that is missing here
   * is missing from every snapshot.
   */
  tables(): Readonly<Record<string, Table>> {
    return {
      installation: this.#installation,
      formats: this.#formats,
      layouts: this.#layouts,
      accounts: this.#accounts,
      accountsOfEmail: this.#accountsOfEmail,
      organizations: this.#organizations,
      ...prefixed('organizationMembers', this.organizationMembers.tables()),
      ...prefixed('workspaceMembers', this.workspaceMembers.tables()),
      ...prefixed('clientKeys', this.clientKeys.tables()),
      ...prefixed('transformationVersions', this.transformationVersions.tables()),
    };
  }
}

function prefixed(part: string, tables: Readonly<Record<string, Table>>): Readonly<Record<string, Table>> {
  return Object.fromEntries(Object.entries(tables).map(([name, table]) => [`${part}.${name}`, table]));
}
