import type { OrganizationRole, WorkspaceRole } from '../access/roles.ts';
import type { EventType } from '../event/event.ts';
import type { TopicLayout } from '../log/layout.ts';
import type {
  Account,
  Alert,
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
  WarehouseTable,
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
 * The control plane as this process has it: a fold over the topic `catalog`.
 *
 * Promises:
 * - `state` holds every fact below `position` and none above.
 * - `propose` resolves after the fold of this process has decided about the fact, so the caller reads its own write.
 * - All processes decide the same about every fact.
 *
 * Errors: `Unavailable` when the log does not answer in time. The proposed fact may have been appended: read the
 * state and propose again.
 */
export interface Catalog {
  /** Read it at each use and do not keep it: a start from a snapshot replaces the object. */
  readonly state: CatalogView;
  /** The offset of the next fact to apply. */
  readonly position: number;
  /**
   * True once the fold has reached the end that the log had at start, while its last successful fetch is recent and
   * every fact was known.
   */
  readonly ready: boolean;
  /**
   * Why the fold stopped for good: facts are missing or unknown. A text for operators; undefined while it follows the
   * log.
   */
  readonly fault: string | undefined;
  /** Milliseconds since the last successful fetch, by a monotonic clock; `Infinity` before the first. */
  readonly age: number;
  propose(fact: Fact): Promise<Verdict>;
  /** Resolves once `position` is at least this; `Unavailable` after `timeoutMs`. */
  waitFor(position: number, timeoutMs: number): Promise<void>;
  /** Resolves once the fold has reached the end the log has now; `Unavailable` after `timeoutMs`. */
  catchUp(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
}

export interface WorkspaceEntities {
  api_key: ApiKey;
  write_key: WriteKey;
  source: CatalogSource;
  contract: Contract;
  transformation: Transformation;
  destination: Destination;
  rule: Rule;
  replay: Replay;
  alert: Alert;
  warehouse_table: WarehouseTable;
}

export type WorkspaceEntityKind = keyof WorkspaceEntities;

/** A key of any kind, as a look-up by its hash returns it. */
export type FoundKey =
  | { readonly kind: 'api_key'; readonly key: ApiKey }
  | { readonly kind: 'write_key'; readonly key: WriteKey }
  | { readonly kind: 'client_key'; readonly key: ClientKey };

/** Read access to the fold. All returned objects are immutable; a later fact creates new ones. */
export interface CatalogView {
  /**
   * The id of this installation, which marks its stores; undefined while no release that marks stores has written to
   * the catalog.
   */
  readonly installation: string | undefined;
  /**
   * Whether the upgrade to this release is finished: no process is left, or comes back, of a release that cannot read what this
   * one writes, so records may refer to others, counts be deflated, dedupe files be timed, and warehouses be added.
   */
  readonly isUpgraded: boolean;
  /** The topics that were grown, or are about to be. */
  readonly layouts: ReadonlyMap<string, TopicLayout>;
  readonly organizationCount: number;
  account(id: string): Account | undefined;
  organization(id: string): Organization | undefined;
  /** The organization with this `org_id`, the number that the profile API uses. */
  organizationByOrgId(orgId: number): Organization | undefined;
  organizationRole(accountId: string, organizationId: string): OrganizationRole | undefined;
  organizationListing(accountId: string): Listing<Organization>;
  readonly organizationMembers: MembersView<OrganizationMember>;
  readonly workspaceMembers: MembersView<WorkspaceMember>;
  readonly clientKeys: ClientKeysView;
  readonly transformationVersions: TransformationVersionsView;
  workspace(id: string): Workspace | undefined;
  /** Ids of all workspaces, oldest first. */
  workspaceIds(): Iterable<string>;
  /**
   * The effective role of an account in a workspace, which includes its role in the organization; undefined for an
   * account that is no member.
   */
  workspaceRole(accountId: string, workspaceId: string): WorkspaceRole | undefined;
  workspaceListing(accountId: string, status?: Workspace['status']): Listing<Workspace>;
  /** The workspaces of an organization, optionally of one status. */
  workspacesIn(organizationId: string, status?: Workspace['status']): CountedListing<Workspace>;
  /**
   * How many organizations and workspaces an account has created, including archived ones and those that other
   * accounts own now.
   */
  createdCounts(accountId: string): { readonly organizations: number; readonly workspaces: number };
  /**
   * Characters of JSON of an organization's contracts, transformations (with past versions), rules and destinations.
   */
  charactersIn(organizationId: string): number;
  accountOfEmail(email: string): string | undefined;
  /** The key with this SHA-256 of its raw text, revoked keys included. */
  keyByHash(hash: string): FoundKey | undefined;
  /** One entity of a workspace; undefined when it is missing, deleted or of another workspace. */
  entity<K extends WorkspaceEntityKind>(
    kind: K,
    workspaceId: string,
    id: string,
  ): WorkspaceEntities[K] | undefined;
  /** All entities of a kind in a workspace, newest first, archived and revoked ones included. */
  entities<K extends WorkspaceEntityKind>(kind: K, workspaceId: string): readonly WorkspaceEntities[K][];
  /**
   * The same in creation order; with `group` only those of a status, of rules and destinations the `enabled` or
   * `disabled` ones, or of warehouse tables those of a destination.
   */
  listing<K extends WorkspaceEntityKind>(
    kind: K,
    workspaceId: string,
    group?: string,
  ): CountedListing<WorkspaceEntities[K]>;
  /** The workspace an entity was created in; undefined when it never was. */
  workspaceOf(id: string): string | undefined;
  wasDeleted(kind: WorkspaceEntityKind, workspaceId: string, id: string): boolean;
  /** A destination or transformation by id alone, for stages that have no workspace id. */
  destination(id: string): Destination | undefined;
  transformation(id: string): Transformation | undefined;
  /** Enabled rules of a workspace, oldest first. */
  enabledRules(workspaceId: string): readonly Rule[];
  /**
   * The contract that evaluates an event as of a catalog position: the one with the exact event name, else the one
   * with the empty name. Every replay gets the same answer.
   */
  contractAt(workspaceId: string, type: EventType, name: string, position: number): Contract | undefined;
  /** A version of a contract, while it is the newest or may still evaluate events. History keeps the others. */
  contractVersion(workspaceId: string, id: string, version: number): Contract | undefined;
  /** Older versions of contracts that may still evaluate events. */
  pastContracts(workspaceId: string): Iterable<Contract>;
}

/** The organization of a workspace, as the owner of a share; the workspace itself where the catalog does not know it. */
export function organizationOf(state: Pick<CatalogView, 'workspace'>, workspaceId: string): string {
  return state.workspace(workspaceId)?.organization_id ?? workspaceId;
}
