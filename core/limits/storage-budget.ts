import type { CatalogView } from '../catalog/catalog.ts';
import type { StorageException, Workspace } from '../catalog/entities.ts';
import { OPERATOR_ACCOUNT } from '../catalog/facts.ts';
import { organizationScope, orgIdOf, RECEIVED_COPIES } from '../funnel/bytes.ts';
import type { ScopeBytes } from '../ports/counters.ts';
import { getOrMake } from '../primitives/get-or-make.ts';
import {
  bytesUntilExhausted,
  type DiskLevel,
  type DiskRoom,
  diskLevelOf,
  isDiskAtLeast,
  type ReadDiskRoom,
} from './disk-level.ts';

const HOUR_MS = 3_600_000;

/** Budgets of a workspace or an organization, bytes; `Infinity`: unlimited. */
export interface StorageLimits {
  /** Bytes that stages and profile writes append to the log for it in one clock hour. */
  readonly bytesPerHour: number;
  /** Bytes in the log over its retention: received ones, and those that were written for them. */
  readonly bytesHeld: number;
}

/** The bytes of one scope. */
export interface StorageUsage {
  /** Received and written in the current clock hour. */
  readonly received: number;
  readonly written: number;
  /** Received and written in the last 60 minutes, about. */
  readonly lastHour: number;
  readonly held: number;
}

/** The budgets that a verdict names. `disk_share`: of the organizations of an account, while the reserve of the disk is touched. */
export const STORAGE_BUDGETS = [
  'bytes_per_hour',
  'bytes_held',
  'organization_bytes_per_hour',
  'organization_bytes_held',
  'disk_share',
] as const;
export type StorageBudget = (typeof STORAGE_BUDGETS)[number];

export const STORAGE_ACTIONS = ['ok', 'stop_output', 'refuse'] as const;

export interface OverBudget {
  /** `stop_output`: events make no deliveries. `refuse`: events are refused as well. */
  readonly action: Exclude<(typeof STORAGE_ACTIONS)[number], 'ok'>;
  readonly budget: StorageBudget;
  readonly used: number;
  readonly limit: number;
  /** When it is worth trying again, ms from now. */
  readonly retryAfterMs: number;
}

/** Undefined: within all budgets. */
export type StorageVerdict = OverBudget | undefined;

/** The bytes that each user of the disk may use while the disk's reserve is touched. */
export interface FairStorage {
  readonly lastHour: number;
  readonly held: number;
}

/** A share of what is held is never less: an organization that fills no disk goes on. */
const LEAST_HELD = 64 * 2 ** 20;
/**
 * The bytes that a user of the disk may add in an hour, as a multiple of the bytes until events of all are refused. Each
 * further user that fills the disk gets a part of the rest, so together they never use it up.
 */
const LAST_HOUR_PER_FREE = 2;
/** The same of the bytes that are left now, without what is expected of others: an organization that adds little goes on. */
const LEAST_LAST_HOUR_PER_FREE = 1 / 32;
/** Retention frees bytes all the time, and the disk's level is measured all the time. */
const HELD_RETRY_MS = 600_000;
const DISK_RETRY_MS = 60_000;

/** The budget of its own that a workspace, the profiles of an organization, or all of an organization have used up. */
export function overLimits(
  { written, held }: Pick<StorageUsage, 'written' | 'held'>,
  limits: StorageLimits,
  now: number,
  of: '' | 'organization_' = '',
): StorageVerdict {
  const action = 'refuse';
  if (held >= limits.bytesHeld)
    return {
      action,
      budget: `${of}bytes_held`,
      used: held,
      limit: limits.bytesHeld,
      retryAfterMs: HELD_RETRY_MS,
    };
  if (written < limits.bytesPerHour) return undefined;
  const retryAfterMs = HOUR_MS - (now % HOUR_MS);
  return { action, budget: `${of}bytes_per_hour`, used: written, limit: limits.bytesPerHour, retryAfterMs };
}

/**
 * Whether a user of the disk is over its share, while the reserve is touched: these stop first, so that the others go on. What
 * was added in the last hour counts whatever its kind, plain events too.
 */
export function overShare(
  { lastHour, held }: Pick<StorageUsage, 'lastHour' | 'held'>,
  share: FairStorage,
  disk: DiskLevel,
): StorageVerdict {
  if (!isDiskAtLeast(disk, 'scarce')) return undefined;
  const [used, limit] = held > share.held ? [held, share.held] : [lastHour, share.lastHour];
  if (used <= limit) return undefined;
  const action = isDiskAtLeast(disk, 'low') ? 'refuse' : 'stop_output';
  return { action, budget: 'disk_share', used, limit, retryAfterMs: DISK_RETRY_MS };
}

/**
 * The bytes that each user of the disk may hold while the reserve is touched: the mean of all, and at least half of the
 * largest, so that users with few bytes do not make the use of others unfair. A single user has all of it: later levels of
 * the disk stop it.
 */
export function fairHeld(held: readonly number[]): number {
  const used = held.filter((bytes) => bytes > 0);
  if (used.length < 2) return Number.POSITIVE_INFINITY;
  const mean = used.reduce((sum, bytes) => sum + bytes, 0) / used.length;
  const largest = used.reduce((most, bytes) => Math.max(most, bytes), 0);
  return Math.max(LEAST_HELD, Math.floor(Math.max(mean, largest / 2)));
}

/**
 * The bytes that each user may add in an hour: a multiple of the space that is left when the stages have written `pending`
 * bytes, as a new user that fills the rest of the disk holds less than the mean.
 */
export function fairLastHour(room: DiskRoom, pending = 0): number {
  const left = bytesUntilExhausted({ ...room, free: room.free - pending });
  return Math.max(
    LAST_HOUR_PER_FREE * left,
    Math.floor(LEAST_LAST_HOUR_PER_FREE * bytesUntilExhausted(room)),
  );
}

/** The limits of a workspace: those that an operator gave it, else the installation's. */
export function storageLimitsOf(
  { storage }: Partial<Pick<Workspace, 'storage'>>,
  defaults: StorageLimits,
): StorageLimits {
  const chosen = (exception: StorageException[keyof StorageException], fallback: number) =>
    exception === undefined ? fallback : (exception ?? Number.POSITIVE_INFINITY);
  return {
    bytesPerHour: chosen(storage?.bytes_per_hour, defaults.bytesPerHour),
    bytesHeld: chosen(storage?.bytes_held, defaults.bytesHeld),
  };
}

/** Workspaces that use up their budgets at a time before their organization is stopped. */
const WORKSPACES_AT_BUDGET = 4;

/** The limits of an organization: those of four workspaces, and in addition what an operator gave one of its workspaces. */
export function organizationLimits(
  defaults: StorageLimits,
  exceptions: readonly StorageException[],
): StorageLimits {
  const sum = (fallback: number, name: keyof StorageException) =>
    exceptions.reduce(
      (bytes, { [name]: own }) => bytes + (own === undefined ? 0 : (own ?? Number.POSITIVE_INFINITY)),
      WORKSPACES_AT_BUDGET * fallback,
    );
  return {
    bytesPerHour: sum(defaults.bytesPerHour, 'bytes_per_hour'),
    bytesHeld: sum(defaults.bytesHeld, 'bytes_held'),
  };
}

interface Known {
  /** Start of the hour that `received` and `written` belong to. */
  hour: number;
  received: number;
  written: number;
  /** Received bytes that the store did not have when it was read last, and those of the hour before. */
  unprocessed: number;
  carried: number;
  /** Bytes that later stages will write for processed events, when the counters were read last: see `expectedBytes`. */
  expected: number;
  /** Received and written in the hour before. */
  before: number;
  held: number;
}

/** The sums of the scopes of an organization. */
interface KnownOrganization extends Known {
  limits: StorageLimits;
}

export interface StorageBudgetsOptions {
  readonly limits: StorageLimits;
  readonly catalog: {
    readonly state: Pick<CatalogView, 'workspace' | 'organization' | 'organizationByOrgId'>;
  };
  readonly diskRoom: ReadDiskRoom;
  /** Epoch ms. */
  readonly clock: () => number;
}

const NO_BYTES = {
  received: 0,
  written: 0,
  unprocessed: 0,
  carried: 0,
  expected: 0,
  before: 0,
  held: 0,
} as const;

/**
 * The usage of all scopes as this process knows it: what the counters have, read every few seconds, and what this
 * process wrote since. Bytes that it wrote after a reading are not part of that reading, so both together are never more than
 * the true usage, and its own part has no delay.
 */
export class StorageBudgets {
  readonly #options: StorageBudgetsOptions;
  readonly #scopes = new Map<string, Known>();
  /** By `#organizationOf`. */
  readonly #organizations = new Map<string, KnownOrganization>();
  /** Ids of `#organizations` by the user of the disk that they belong to: see `#diskUserOf`. */
  readonly #diskUsers = new Map<string, Set<string>>();
  #isByAccount = false;
  #fairHeld = Number.POSITIVE_INFINITY;
  /** Bytes that the disk will lose for what was received, of all scopes. */
  #pending = 0;
  #level: DiskLevel = 'enough';

  constructor(options: StorageBudgetsOptions) {
    this.#options = options;
  }

  /** Bytes that this process received, which `validate` has not processed, or wrote. */
  add(bytes: Iterable<ScopeBytes>): void {
    for (const { scope, received, written, expected = 0 } of bytes) {
      for (const known of [this.#known(scope), this.#organization(scope)]) {
        known.received += received;
        known.written += written;
        known.held += received + written;
        known.unprocessed += received;
        known.expected += expected;
      }
      this.#pending += RECEIVED_COPIES * received + expected;
    }
  }

  /** Takes over the counts of the hour that begins at `start`, and of the one before. */
  readHours(start: number, current: readonly ScopeBytes[], before: readonly ScopeBytes[]): void {
    if (start !== this.#hour()) return;
    for (const known of this.#scopes.values()) known.expected = 0;
    for (const { scope, received, written, expected = 0 } of current) {
      const known = this.#known(scope);
      // The store counts them in the hour in which they were processed.
      known.unprocessed = Math.max(0, known.carried + known.received - received);
      known.received = Math.max(known.received, received - known.carried);
      known.written = Math.max(known.written, written);
      known.expected += expected;
    }
    for (const { scope, received, written, expected = 0 } of before) {
      const known = this.#known(scope);
      known.before = Math.max(known.before, received + written);
      known.expected += expected;
    }
    this.#sumUp();
  }

  /** Takes over the bytes that the log holds of each scope. Scopes without any are forgotten. */
  readHeld(held: ReadonlyMap<string, number>): void {
    for (const [scope, known] of this.#scopes)
      if (!held.has(scope) && this.#usage(known).lastHour === 0) this.#scopes.delete(scope);
      else known.held = held.get(scope) ?? 0;
    for (const [scope, bytes] of held) this.#known(scope).held = bytes;
    this.#sumUp();
  }

  /** The verdict on a workspace: by its own budgets, those of its organization's profiles, and its organization's. */
  verdictOf(workspaceId: string): StorageVerdict {
    const { state } = this.#options.catalog;
    const workspace = state.workspace(workspaceId);
    const own = this.#overOwn(workspaceId, storageLimitsOf(workspace ?? {}, this.#options.limits));
    if (own !== undefined || workspace === undefined) return own;
    const organization = state.organization(workspace.organization_id);
    return (
      (organization && this.#overOwn(organizationScope(organization.org_id), this.#options.limits)) ??
      this.#overOfOrganization(workspace.organization_id)
    );
  }

  verdictOfProfiles(orgId: number): StorageVerdict {
    const scope = organizationScope(orgId);
    return (
      this.#overOwn(scope, this.#options.limits) ?? this.#overOfOrganization(this.#organizationOf(scope))
    );
  }

  usageOf(workspaceId: string): StorageUsage {
    const known = this.#scopes.get(workspaceId);
    return known === undefined ? { received: 0, written: 0, lastHour: 0, held: 0 } : this.#usage(known);
  }

  limitsOf(workspaceId: string): StorageLimits {
    const { catalog, limits } = this.#options;
    return storageLimitsOf(catalog.state.workspace(workspaceId) ?? {}, limits);
  }

  /** How many workspaces, profiles of organizations, and organizations are over each budget. */
  over(): ReadonlyMap<StorageBudget, number> {
    const counts = new Map<StorageBudget, number>(STORAGE_BUDGETS.map((budget) => [budget, 0]));
    const count = (verdict: StorageVerdict) => {
      if (verdict !== undefined) counts.set(verdict.budget, (counts.get(verdict.budget) ?? 0) + 1);
    };
    for (const scope of this.#scopes.keys()) count(this.#overOwn(scope, this.limitsOf(scope)));
    for (const [id, organization] of this.#organizations) count(this.#overOfOrganization(id, organization));
    return counts;
  }

  /** The most bytes that a scope has written in this hour, and that one holds. */
  largest(): Pick<StorageUsage, 'written' | 'held'> {
    let [written, held] = [0, 0];
    for (const known of this.#scopes.values()) {
      const usage = this.#usage(known);
      written = Math.max(written, usage.written);
      held = Math.max(held, usage.held);
    }
    return { written, held };
  }

  #overOwn(scope: string, limits: StorageLimits): StorageVerdict {
    const known = this.#scopes.get(scope);
    return known && overLimits(this.#usage(known), limits, this.#options.clock());
  }

  #overOfOrganization(id: string, known = this.#organizations.get(id)): StorageVerdict {
    if (known === undefined) return this.#overShare(id);
    return (
      overLimits(this.#usage(known), known.limits, this.#options.clock(), 'organization_') ??
      this.#overShare(id)
    );
  }

  #overShare(organizationId: string): StorageVerdict {
    const room = this.#options.diskRoom();
    if (room === undefined) return undefined;
    // The level of everyone is measured. A share is of the time when the stages are done with what was received.
    this.#level = diskLevelOf(room.free - this.#pending, room.reserve, this.#level);
    if (this.#level === 'enough') return undefined;
    if (this.#fairHeld === Number.POSITIVE_INFINITY) return undefined;
    const own = this.#diskUsers.get(this.#diskUserOf(organizationId)) ?? [organizationId];
    const share = { lastHour: fairLastHour(room, this.#pending), held: this.#fairHeld };
    return overShare(this.#usageOfAll(own), share, this.#level);
  }

  /** The sums of some organizations, with what the stages have yet to write for them. */
  #usageOfAll(ids: Iterable<string>): Pick<StorageUsage, 'lastHour' | 'held'> {
    let [lastHour, held] = [0, 0];
    for (const id of ids) {
      const known = this.#organizations.get(id);
      if (known === undefined) continue;
      const usage = this.#usage(known);
      lastHour += usage.lastHour + pendingOf(known);
      held += usage.held;
    }
    return { lastHour, held };
  }

  /** The sums of the organizations, with the limits that the catalog gives them now. */
  #sumUp(): void {
    const { catalog, limits } = this.#options;
    this.#organizations.clear();
    let pending = 0;
    const exceptions = new Map<string, StorageException[]>();
    for (const scope of this.#scopes.keys()) {
      const known = this.#known(scope);
      const { received, held } = this.#usage(known);
      const sum = this.#organization(scope);
      pending += pendingOf(known);
      sum.unprocessed += known.unprocessed;
      sum.expected += Math.max(0, known.expected);
      sum.received += received;
      sum.written += known.written;
      sum.before += known.before;
      sum.held += held;
      const storage = catalog.state.workspace(scope)?.storage;
      if (storage === undefined) continue;
      const id = this.#organizationOf(scope);
      exceptions.set(id, [...(exceptions.get(id) ?? []), storage]);
    }
    for (const [id, given] of exceptions) {
      const organization = this.#organizations.get(id);
      if (organization !== undefined) organization.limits = organizationLimits(limits, given);
    }
    this.#pending = pending;
    this.#gatherDiskUsers();
  }

  #gatherDiskUsers(): void {
    this.#diskUsers.clear();
    const users = new Set([...this.#organizations.keys()].map((id) => this.#creatorOf(id)));
    // Where one account made all organizations, they share the disk among each other.
    this.#isByAccount = users.size > 1;
    for (const id of this.#organizations.keys()) {
      const user = this.#diskUserOf(id);
      this.#diskUsers.set(user, (this.#diskUsers.get(user) ?? new Set()).add(id));
    }
    this.#fairHeld = fairHeld([...this.#diskUsers.values()].map((ids) => this.#usageOfAll(ids).held));
  }

  /**
   * The account that an organization's share belongs to: the one that made it, as one person with many small organizations
   * fills a disk as well as with a large one. An organization that an operator made counts alone.
   */
  #diskUserOf(organizationId: string): string {
    return this.#isByAccount ? this.#creatorOf(organizationId) : organizationId;
  }

  #creatorOf(organizationId: string): string {
    const by = this.#options.catalog.state.organization(organizationId)?.created_by;
    return by === undefined || by === OPERATOR_ACCOUNT ? organizationId : by;
  }

  /** The id of its organization; the scope itself where the catalog does not know that. */
  #organizationOf(scope: string): string {
    const { state } = this.#options.catalog;
    const orgId = orgIdOf(scope);
    if (orgId !== undefined) return state.organizationByOrgId(orgId)?.id ?? scope;
    return state.workspace(scope)?.organization_id ?? scope;
  }

  #organization(scope: string): KnownOrganization {
    const id = this.#organizationOf(scope);
    const made = () => ({
      hour: this.#hour(),
      ...NO_BYTES,
      limits: organizationLimits(this.#options.limits, []),
    });
    return this.#ofThisHour(getOrMake(this.#organizations, id, made));
  }

  #known(scope: string): Known {
    const made = () => ({ hour: this.#hour(), ...NO_BYTES });
    return this.#ofThisHour(getOrMake(this.#scopes, scope, made));
  }

  #ofThisHour<K extends Known>(known: K): K {
    const hour = this.#hour();
    if (known.hour !== hour) advance(known, hour);
    return known;
  }

  #usage(known: Known): StorageUsage {
    const { hour, received, written, before } = this.#ofThisHour(known);
    const left = 1 - (this.#options.clock() - hour) / HOUR_MS;
    return {
      received,
      written,
      lastHour: Math.floor(received + written + before * left),
      held: Math.max(known.held, received + written),
    };
  }

  #hour(): number {
    const now = this.#options.clock();
    return now - (now % HOUR_MS);
  }
}

/** Bytes that the stages have yet to write for what was received. */
function pendingOf({ unprocessed, expected }: Known): number {
  return RECEIVED_COPIES * unprocessed + Math.max(0, expected);
}

function advance(known: Known, hour: number): void {
  known.before = hour - known.hour === HOUR_MS ? known.received + known.written : 0;
  // Not those of earlier hours: an event that the log refused for its size is never processed.
  known.carried = Math.min(known.unprocessed, known.received);
  known.unprocessed = known.carried;
  known.hour = hour;
  known.received = 0;
  known.written = 0;
}
