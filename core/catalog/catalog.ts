import type { OrganizationRole, WorkspaceRole } from '../access/roles.ts';
import type { EventType } from '../event/event.ts';
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
import type { Fact, Verdict } from './facts.ts';
import type { ClientKeysView } from './fold/client-keys.ts';
import type { CountedListing, Listing } from './fold/creation-order.ts';
import type { MembersView } from './fold/members.ts';
import type { TransformationVersionsView } from './fold/transformation-versions.ts';

/**
 * The control plane as this process knows it: a fold over the catalog topic.
 *
 * Promises: `state` holds every fact below `position` and none above; `propose` resolves after this process's own fold
 * decided about the fact, so whoever asked reads its own write; all processes decide the same about every fact.
 *
 * Errors: `Unavailable` when the log does not answer in time (a proposed fact may exist: ask again with what you see).
 */
export interface Catalog {
  /** To be asked for at each use, never kept: a start from a snapshot puts another one in its place. */
  readonly state: CatalogView;
  /** The offset of the next fact to apply. */
  readonly position: number;
  /** True once it caught up with the end it saw at start, its last successful fetch is recent, and every fact was known. */
  readonly ready: boolean;
  /** Why it stopped for good, for people: facts that are missing or not known. Undefined while it follows the log. */
  readonly fault: string | undefined;
  /** Milliseconds since its last successful fetch, by a clock that nobody sets; `Infinity` before the first. */
  readonly age: number;
  propose(fact: Fact): Promise<Verdict>;
  /** Resolves once `position` is at least this; `Unavailable` after `timeoutMs`. */
  waitFor(position: number, timeoutMs: number): Promise<void>;
  /** Resolves once the fold has reached the end the log has now; `Unavailable` after `timeoutMs`. */
  catchUp(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
}

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
  /** The id by which stores know whose they are; undefined before any release that marks them wrote to the catalog. */
  readonly installation: string | undefined;
  readonly organizationCount: number;
  account(id: string): Account | undefined;
  organization(id: string): Organization | undefined;
  /** The organization of an `org_id`, by which the profile API speaks of it. */
  organizationByOrgId(orgId: number): Organization | undefined;
  organizationRole(accountId: string, organizationId: string): OrganizationRole | undefined;
  /** Organizations the account is a member of. */
  organizationsOf(accountId: string): readonly Organization[];
  organizationListing(accountId: string): Listing<Organization>;
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
  /** The same, or those of a status alone. */
  workspaceListing(accountId: string, status?: Workspace['status']): Listing<Workspace>;
  /** Every workspace of an organization, or those of a status. */
  workspacesIn(organizationId: string, status?: Workspace['status']): CountedListing<Workspace>;
  /** How many of each an account has made, including archived ones and those that belong to other accounts now. */
  createdCounts(accountId: string): { readonly organizations: number; readonly workspaces: number };
  /** Characters of JSON that an organization's contracts, transformations (past versions too), rules and destinations have. */
  charactersIn(organizationId: string): number;
  /** The account that has an e-mail address. */
  accountOfEmail(email: string): string | undefined;
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
  /** The same in creation order; with `group` those alone that are `enabled`, of rules and destinations, or of a status. */
  listing<K extends WorkspaceEntityKind>(
    kind: K,
    workspaceId: string,
    group?: string,
  ): CountedListing<WorkspaceEntities[K]>;
  /** The workspace an entity was created in; undefined when it never was. */
  workspaceOf(id: string): string | undefined;
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
