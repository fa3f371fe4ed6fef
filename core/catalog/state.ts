import {
  effectiveRole,
  ORGANIZATION_ROLES,
  type OrganizationRole,
  WORKSPACE_ROLES,
  type WorkspaceRole,
} from '../access/roles.ts';
import type { EventType } from '../event/event.ts';
import { ClientKeys, type ClientKeysView } from './client-keys.ts';
import { type ContractEra, eraAt, pairKey, pastContracts, withoutEras } from './contract-eras.ts';
import type {
  Account,
  ApiKey,
  CatalogSource,
  ClientKey,
  Contract,
  Destination,
  Organization,
  OrganizationMember,
  Replay,
  Rule,
  Transformation,
  Workspace,
  WorkspaceMember,
  WriteKey,
} from './entities.ts';
import { Members, type MembersView } from './members.ts';
import { type Table, under } from './tables.ts';
import { TransformationVersions, type TransformationVersionsView } from './transformation-versions.ts';

/** Entities that belong to a workspace, by the word their resource has. */
export interface WorkspaceEntities {
  api_key: ApiKey;
  write_key: WriteKey;
  source: CatalogSource;
  contract: Contract;
  transformation: Transformation;
  destination: Destination;
  rule: Rule;
  replay: Replay;
}

export type WorkspaceEntityKind = keyof WorkspaceEntities;

/** A key of any kind, as its raw text finds it. */
export type FoundKey =
  | { readonly kind: 'api_key'; readonly key: ApiKey }
  | { readonly kind: 'write_key'; readonly key: WriteKey }
  | { readonly kind: 'client_key'; readonly key: ClientKey };

/** Read access to the fold. Everything answered is immutable; a later fact makes new objects. */
export interface CatalogView {
  account(id: string): Account | undefined;
  organization(id: string): Organization | undefined;
  /** The organization of an `org_id`, by which the profile API speaks of it. */
  organizationNumbered(orgId: number): Organization | undefined;
  organizationRole(accountId: string, organizationId: string): OrganizationRole | undefined;
  /** Organizations the account is a member of. */
  organizationsOf(accountId: string): readonly Organization[];
  readonly organizationMembers: MembersView<OrganizationMember>;
  readonly workspaceMembers: MembersView<WorkspaceMember>;
  readonly clientKeys: ClientKeysView;
  readonly transformationVersions: TransformationVersionsView;
  workspace(id: string): Workspace | undefined;
  /** Of all workspaces, oldest first. */
  workspaceIds(): Iterable<string>;
  /** The role of an account in a workspace, that of its organization counted in; undefined = not a member. */
  workspaceRole(accountId: string, workspaceId: string): WorkspaceRole | undefined;
  /** Workspaces the account belongs to, archived ones too, newest first. */
  workspacesOf(accountId: string): readonly Workspace[];
  /** Every workspace of an organization, archived ones too, oldest first. */
  workspacesIn(organizationId: string): readonly Workspace[];
  /** A key by the SHA-256 of its raw text, revoked ones too. */
  keyByHash(hash: string): FoundKey | undefined;
  /** One entity of a workspace; undefined when it is missing, deleted, or another workspace's. */
  entity<K extends WorkspaceEntityKind>(
    kind: K,
    workspaceId: string,
    id: string,
  ): WorkspaceEntities[K] | undefined;
  /** All entities of a kind in a workspace, newest first, archived and revoked ones included. */
  entities<K extends WorkspaceEntityKind>(kind: K, workspaceId: string): readonly WorkspaceEntities[K][];
  /** True when the id was deleted from this workspace. */
  wasDeleted(kind: WorkspaceEntityKind, workspaceId: string, id: string): boolean;
  /** Any destination, transformation by id, for stages that know no workspace yet. */
  destination(id: string): Destination | undefined;
  transformation(id: string): Transformation | undefined;
  /** Enabled rules of a workspace, oldest first. */
  enabledRules(workspaceId: string): readonly Rule[];
  /**
   * The contract that judges an event, as of a catalog position: the one of the exact name, else the one of the empty
   * name. The same answer on every replay.
   */
  contractAt(workspaceId: string, type: EventType, name: string, position: number): Contract | undefined;
  /** A version of a contract while it is the newest or may still judge; history keeps the others. */
  contractVersion(workspaceId: string, id: string, version: number): Contract | undefined;
  /** The versions that are not the newest of their contract and may still judge. */
  pastContracts(workspaceId: string): Iterable<Contract>;
}

/** What belongs to one workspace. */
export interface WorkspaceIndex {
  readonly tables: { [K in WorkspaceEntityKind]: Map<string, WorkspaceEntities[K]> };
  readonly deleted: Set<string>;
  readonly eras: Map<string, ContractEra[]>;
  enabledRules: readonly Rule[] | undefined;
}

function emptyIndex(): WorkspaceIndex {
  return {
    tables: {
      api_key: new Map(),
      write_key: new Map(),
      source: new Map(),
      contract: new Map(),
      transformation: new Map(),
      destination: new Map(),
      rule: new Map(),
      replay: new Map(),
    },
    deleted: new Set(),
    eras: new Map(),
    enabledRules: undefined,
  };
}

/** What the fold writes to. Only `fold.ts` calls the methods that change it. */
export class CatalogState implements CatalogView {
  readonly #accounts = new Map<string, Account>();
  /** Accounts by e-mail address, whoever had it first before the others. */
  readonly #accountsOfEmail = new Map<string, Set<string>>();
  readonly #organizations = new Map<string, Organization>();
  /** Ids of organizations by their `org_id`; made of the others when it is asked for, as rows hold none of it. */
  readonly #organizationNumbers = new Map<number, string>();
  readonly #workspaces = new Map<string, Workspace>();
  readonly #workspacesOfOrganization = new Map<string, string[]>();
  readonly #indexes = new Map<string, WorkspaceIndex>();
  readonly #keys = new Map<string, FoundKey>();
  readonly #workspaceOf = new Map<string, string>();
  readonly organizationMembers = new Members<OrganizationMember>(
    ORGANIZATION_ROLES,
    (member) => member.organization_id,
  );
  readonly workspaceMembers = new Members<WorkspaceMember>(WORKSPACE_ROLES, (member) => member.workspace_id);
  readonly clientKeys = new ClientKeys();
  readonly transformationVersions = new TransformationVersions();

  account(id: string): Account | undefined {
    return this.#accounts.get(id);
  }

  organization(id: string): Organization | undefined {
    return this.#organizations.get(id);
  }

  organizationNumbered(orgId: number): Organization | undefined {
    // No organization ever goes, and none changes its number.
    if (this.#organizationNumbers.size < this.#organizations.size)
      for (const { id, org_id } of this.#organizations.values()) this.#organizationNumbers.set(org_id, id);
    return this.organization(this.#organizationNumbers.get(orgId) ?? '');
  }

  get organizationCount(): number {
    return this.#organizations.size;
  }

  organizationRole(accountId: string, organizationId: string): OrganizationRole | undefined {
    return this.organizationMembers.ofAccount(accountId, organizationId)?.role;
  }

  organizationsOf(accountId: string): readonly Organization[] {
    return this.organizationMembers
      .scopesOf(accountId)
      .flatMap((id) => this.#organizations.get(id) ?? [])
      .sort((a, b) => (a.id < b.id ? 1 : -1));
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

  workspacesOf(accountId: string): readonly Workspace[] {
    const ids = new Set(this.workspaceMembers.scopesOf(accountId));
    for (const organizationId of this.organizationMembers.scopesOf(accountId)) {
      for (const id of this.#workspacesOfOrganization.get(organizationId) ?? []) ids.add(id);
    }
    const found = [...ids].flatMap((id) => {
      const workspace = this.#workspaces.get(id);
      return workspace !== undefined && this.workspaceRole(accountId, id) !== undefined ? [workspace] : [];
    });
    return found.sort((a, b) => (a.id < b.id ? 1 : -1));
  }

  workspacesIn(organizationId: string): readonly Workspace[] {
    const ids = this.#workspacesOfOrganization.get(organizationId) ?? [];
    return ids.flatMap((id) => this.#workspaces.get(id) ?? []);
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
    const index = this.#indexes.get(workspaceId);
    if (index === undefined) return [];
    index.enabledRules ??= [...index.tables.rule.values()].filter((rule) => rule.enabled);
    return index.enabledRules;
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

  /** The workspace an entity was created in; undefined when it never was. */
  workspaceOf(id: string): string | undefined {
    return this.#workspaceOf.get(id);
  }

  hasKey(hash: string): boolean {
    return this.keyByHash(hash) !== undefined;
  }

  /** Whoever has an e-mail address first gets what is for it: also the memberships that waited for somebody with it. */
  putAccount(account: Account): void {
    const before = this.#accounts.get(account.id)?.email ?? null;
    this.#accounts.set(account.id, account);
    if (account.email === before) return;
    if (before !== null) this.#forgetEmail(before, account.id);
    if (account.email === null) return;
    const others = this.#accountsOfEmail.get(account.email) ?? new Set<string>();
    this.#accountsOfEmail.set(account.email, others.add(account.id));
    this.organizationMembers.admit(account);
    this.workspaceMembers.admit(account);
  }

  /** Nothing stays of an address that is nobody's: a state made of rows has no empty places either. */
  #forgetEmail(email: string, accountId: string): void {
    const accounts = this.#accountsOfEmail.get(email);
    accounts?.delete(accountId);
    if (accounts?.size === 0) this.#accountsOfEmail.delete(email);
  }

  accountOfEmail(email: string): string | undefined {
    return this.#accountsOfEmail.get(email)?.values().next().value;
  }

  putOrganization(organization: Organization): void {
    this.#organizations.set(organization.id, organization);
    this.#organizationNumbers.set(organization.org_id, organization.id);
  }

  putWorkspace(workspace: Workspace): void {
    if (!this.#workspaces.has(workspace.id)) {
      const siblings = this.#workspacesOfOrganization.get(workspace.organization_id) ?? [];
      siblings.push(workspace.id);
      this.#workspacesOfOrganization.set(workspace.organization_id, siblings);
      this.#indexes.set(workspace.id, emptyIndex());
    }
    this.#workspaces.set(workspace.id, workspace);
  }

  put<K extends WorkspaceEntityKind>(kind: K, entity: WorkspaceEntities[K]): void {
    const index = this.#indexes.get(entity.workspace_id);
    if (index === undefined) throw new Error(`workspace ${entity.workspace_id} is not in the catalog`);
    index.tables[kind].set(entity.id, entity);
    this.#workspaceOf.set(entity.id, entity.workspace_id);
    if (kind === 'rule') index.enabledRules = undefined;
    // Found by one step on the way of every event.
    if (kind === 'api_key' || kind === 'write_key') {
      const known = { kind, key: entity } as unknown as FoundKey;
      this.#keys.set(known.key.hash, known);
    }
  }

  remove(kind: WorkspaceEntityKind, workspaceId: string, id: string): void {
    const index = this.#indexes.get(workspaceId);
    if (index?.tables[kind].delete(id)) index.deleted.add(`${kind}:${id}`);
    if (index !== undefined && kind === 'rule') index.enabledRules = undefined;
  }

  /** The contract that is active for a pair now. */
  activeContract(workspaceId: string, type: EventType, name: string): Contract | undefined {
    return this.#indexes.get(workspaceId)?.eras.get(pairKey(type, name))?.at(-1)?.contract;
  }

  /** From a catalog position on, the contract of the era judges the pair (undefined: none does). */
  startEra(workspaceId: string, type: EventType, name: string, era: ContractEra): void {
    const eras = this.#indexes.get(workspaceId)?.eras;
    if (eras === undefined) return;
    const key = pairKey(type, name);
    const list = eras.get(key) ?? [];
    list.push(era);
    eras.set(key, list);
  }

  /**
   * Forgets the contracts that judge nothing any more: those that were followed by another before `before` (ISO 8601).
   * No event that old may still be judged; one that is all the same is judged by the oldest contract kept.
   */
  forgetEras(before: string): void {
    for (const { eras } of this.#indexes.values()) {
      for (const [pair, list] of eras) eras.set(pair, withoutEras(list, before));
    }
  }

  /** Remembers a deleted entity whose fields are gone. */
  putDeleted(kind: WorkspaceEntityKind, workspaceId: string, id: string): void {
    this.#indexes.get(workspaceId)?.deleted.add(`${kind}:${id}`);
    this.#workspaceOf.set(id, workspaceId);
  }

  /** All that belongs to workspaces, for `rows.ts` alone. */
  get indexes(): ReadonlyMap<string, WorkspaceIndex> {
    return this.#indexes;
  }

  get workspaces(): ReadonlyMap<string, Workspace> {
    return this.#workspaces;
  }

  /**
   * Everything else there is, by name, as maps and sets however deep, for `rows.ts` alone. A field that is missing here
   * is missing from every snapshot.
   */
  tables(): Readonly<Record<string, Table>> {
    return {
      accounts: this.#accounts,
      accountsOfEmail: this.#accountsOfEmail,
      organizations: this.#organizations,
      ...under('organizationMembers', this.organizationMembers.tables()),
      ...under('workspaceMembers', this.workspaceMembers.tables()),
      ...under('clientKeys', this.clientKeys.tables()),
      ...under('transformationVersions', this.transformationVersions.tables()),
    };
  }
}
