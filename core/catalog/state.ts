import { effectiveRole, type OrganizationRole, type WorkspaceRole } from '../access/roles.ts';
import type { EventType } from '../event/event.ts';
import type {
  Account,
  ApiKey,
  Contract,
  Destination,
  Organization,
  Rule,
  Transformation,
  Workspace,
  WriteKey,
} from './entities.ts';

/** Entities that belong to a workspace, by the word their resource has. */
export interface WorkspaceEntities {
  api_key: ApiKey;
  write_key: WriteKey;
  contract: Contract;
  transformation: Transformation;
  destination: Destination;
  rule: Rule;
}

export type WorkspaceEntityKind = keyof WorkspaceEntities;

/** A key and what it is a key for. */
export type KnownKey =
  | { readonly kind: 'api_key'; readonly key: ApiKey }
  | { readonly kind: 'write_key'; readonly key: WriteKey };

/** Read access to the fold. Everything answered is immutable; a later fact makes new objects. */
export interface CatalogView {
  account(id: string): Account | undefined;
  organization(id: string): Organization | undefined;
  organizationRole(accountId: string, organizationId: string): OrganizationRole | undefined;
  workspace(id: string): Workspace | undefined;
  /** Of all workspaces, oldest first. */
  workspaceIds(): Iterable<string>;
  /** The role of an account in a workspace, that of its organization counted in; undefined = not a member. */
  workspaceRole(accountId: string, workspaceId: string): WorkspaceRole | undefined;
  /** Workspaces the account belongs to, newest first. */
  workspacesOf(accountId: string): readonly Workspace[];
  /** An API key or write key by the SHA-256 of its raw text, revoked ones too. */
  keyByHash(hash: string): KnownKey | undefined;
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
}

/** One contract pair's past: what was active from which catalog position on. */
export interface ContractEra {
  readonly from: number;
  /** When the fact that began it was made, ISO 8601. */
  readonly at: string;
  readonly contract: Contract | undefined;
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
      contract: new Map(),
      transformation: new Map(),
      destination: new Map(),
      rule: new Map(),
    },
    deleted: new Set(),
    eras: new Map(),
    enabledRules: undefined,
  };
}

/** What the fold writes to. Only `fold.ts` calls the methods that change it. */
export class CatalogState implements CatalogView {
  readonly #accounts = new Map<string, Account>();
  readonly #organizations = new Map<string, Organization>();
  readonly #organizationRoles = new Map<string, Map<string, OrganizationRole>>();
  readonly #workspaces = new Map<string, Workspace>();
  readonly #workspacesOfOrganization = new Map<string, string[]>();
  readonly #workspaceRoles = new Map<string, Map<string, WorkspaceRole>>();
  readonly #indexes = new Map<string, WorkspaceIndex>();
  readonly #keys = new Map<string, KnownKey>();
  readonly #workspaceOf = new Map<string, string>();

  account(id: string): Account | undefined {
    return this.#accounts.get(id);
  }

  organization(id: string): Organization | undefined {
    return this.#organizations.get(id);
  }

  get organizationCount(): number {
    return this.#organizations.size;
  }

  organizationRole(accountId: string, organizationId: string): OrganizationRole | undefined {
    return this.#organizationRoles.get(accountId)?.get(organizationId);
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
      this.#workspaceRoles.get(accountId)?.get(workspaceId),
    );
  }

  workspacesOf(accountId: string): readonly Workspace[] {
    const ids = new Set(this.#workspaceRoles.get(accountId)?.keys());
    for (const [organizationId] of this.#organizationRoles.get(accountId) ?? []) {
      for (const id of this.#workspacesOfOrganization.get(organizationId) ?? []) ids.add(id);
    }
    const found = [...ids].flatMap((id) => {
      const workspace = this.#workspaces.get(id);
      return workspace !== undefined && this.workspaceRole(accountId, id) !== undefined ? [workspace] : [];
    });
    return found.sort((a, b) => (a.id < b.id ? 1 : -1));
  }

  keyByHash(hash: string): KnownKey | undefined {
    return this.#keys.get(hash);
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

  /** The workspace an entity was created in; undefined when it never was. */
  workspaceOf(id: string): string | undefined {
    return this.#workspaceOf.get(id);
  }

  hasKey(hash: string): boolean {
    return this.#keys.has(hash);
  }

  putAccount(account: Account): void {
    this.#accounts.set(account.id, account);
  }

  putOrganization(organization: Organization): void {
    this.#organizations.set(organization.id, organization);
  }

  putOrganizationRole(accountId: string, organizationId: string, role: OrganizationRole): void {
    const roles = this.#organizationRoles.get(accountId) ?? new Map<string, OrganizationRole>();
    this.#organizationRoles.set(accountId, roles.set(organizationId, role));
  }

  putWorkspaceRole(accountId: string, workspaceId: string, role: WorkspaceRole): void {
    const roles = this.#workspaceRoles.get(accountId) ?? new Map<string, WorkspaceRole>();
    this.#workspaceRoles.set(accountId, roles.set(workspaceId, role));
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
      const known = { kind, key: entity } as unknown as KnownKey;
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
      for (const [pair, list] of eras) {
        let gone = 0;
        while ((list[gone + 1]?.at ?? before) < before) gone++;
        const [first, ...rest] = list.slice(gone);
        if (gone > 0 && first !== undefined) eras.set(pair, [{ ...first, from: 0 }, ...rest]);
      }
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
  tables() {
    return {
      accounts: this.#accounts,
      organizations: this.#organizations,
      organizationRoles: this.#organizationRoles,
      workspaceRoles: this.#workspaceRoles,
    } as const;
  }
}

function pairKey(type: EventType, name: string): string {
  return `${type}:${name}`;
}

function eraAt(eras: readonly ContractEra[] | undefined, position: number): Contract | undefined {
  if (eras === undefined) return undefined;
  for (let i = eras.length - 1; i >= 0; i--) {
    const era = eras[i];
    if (era !== undefined && era.from <= position) return era.contract;
  }
  return undefined;
}
