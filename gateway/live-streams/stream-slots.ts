import { ApiError } from '../errors/api-error.ts';

/** `Retry-After` while too many streams are open, s. */
const RETRY_AFTER_SECONDS = 5;

/** The owners that a stream counts for. */
interface SlotOwner {
  readonly workspaceId: string;
  readonly organizationId: string;
  /** For an API key, the account that created it: further keys or organizations add no accounts. */
  readonly accountId: string;
}

/** The permit of one stream. */
export class StreamSlot {
  readonly owner: SlotOwner;
  /** Ends the stream that has the slot; undefined until it is open. */
  evict: (() => void) | undefined;

  constructor(owner: SlotOwner) {
    this.owner = owner;
  }
}

/**
 * Bounds the open live streams. When all slots are taken, an account with fewer streams gets a slot of the account with
 * the most, as long as it then has no more than that one: early accounts do not keep others out.
 */
export class StreamSlots {
  readonly #limits: LiveLimits;
  /** By account, in the order of acquisition. */
  readonly #ofAccounts = new Map<string, Set<StreamSlot>>();
  readonly #ofWorkspaces = new Map<string, number>();
  readonly #ofOrganizations = new Map<string, number>();
  #total = 0;

  constructor(limits: LiveLimits) {
    this.#limits = limits;
  }

  get total(): number {
    return this.#total;
  }

  /** 429 with the exceeded limit when there is no slot. */
  acquire(owner: SlotOwner): StreamSlot {
    const { streams, workspaceStreams, organizationStreams, accountStreams } = this.#limits;
    const own = this.#ofAccounts.get(owner.accountId)?.size ?? 0;
    const ofWorkspace = this.#ofWorkspaces.get(owner.workspaceId) ?? 0;
    const ofOrganization = this.#ofOrganizations.get(owner.organizationId) ?? 0;
    if (ofWorkspace >= workspaceStreams) throw tooMany('live_streams_of_workspace', workspaceStreams);
    if (own >= accountStreams) throw tooMany('live_streams_of_account', accountStreams);
    if (ofOrganization >= organizationStreams)
      throw tooMany('live_streams_of_organization', organizationStreams);
    if (this.#total >= streams && !this.#makeRoom(own)) throw tooMany('live_streams', streams);
    const slot = new StreamSlot(owner);
    const slots = this.#ofAccounts.get(owner.accountId) ?? new Set<StreamSlot>();
    this.#ofAccounts.set(owner.accountId, slots.add(slot));
    this.#ofWorkspaces.set(owner.workspaceId, ofWorkspace + 1);
    this.#ofOrganizations.set(owner.organizationId, ofOrganization + 1);
    this.#total++;
    return slot;
  }

  /** Idempotent. */
  release(slot: StreamSlot): void {
    const { workspaceId, organizationId, accountId } = slot.owner;
    const slots = this.#ofAccounts.get(accountId);
    if (!slots?.delete(slot)) return;
    if (slots.size === 0) this.#ofAccounts.delete(accountId);
    countDown(this.#ofWorkspaces, workspaceId);
    countDown(this.#ofOrganizations, organizationId);
    this.#total--;
  }

  /** Ends the newest stream of the account with the most, in favour of an account with `own` streams. */
  #makeRoom(own: number): boolean {
    let most: ReadonlySet<StreamSlot> = new Set();
    for (const slots of this.#ofAccounts.values()) if (slots.size > most.size) most = slots;
    if (own + 1 >= most.size) return false;
    const evicted = [...most].findLast(({ evict }) => evict !== undefined);
    if (evicted === undefined) return false;
    this.release(evicted);
    evicted.evict?.();
    return true;
  }
}

function countDown(counts: Map<string, number>, name: string): void {
  const count = (counts.get(name) ?? 0) - 1;
  if (count > 0) counts.set(name, count);
  else counts.delete(name);
}

function tooMany(quota: string, limit: number): ApiError {
  return new ApiError(429, 'too many requests', {
    fields: { quota, limit },
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}

/** Open live streams of this gateway: of all, and of one workspace, organization and account. */
export interface LiveLimits {
  readonly streams: number;
  readonly workspaceStreams: number;
  readonly organizationStreams: number;
  /** Streams of an account and the API keys that it created. */
  readonly accountStreams: number;
  /** Interval of the comments that keep a connection alive, ms. Default 15,000. */
  readonly commentEveryMs?: number;
  /** How long a client may leave a full buffer unread before its connection is closed, ms. Default 60,000. */
  readonly stallTimeoutMs?: number;
}

export const COMMENT_EVERY_MS = 15_000;
export const STALL_TIMEOUT_MS = 60_000;
