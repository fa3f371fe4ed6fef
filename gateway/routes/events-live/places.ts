import { ApiError } from '../../errors/api-error.ts';
import type { LiveLimits } from './limits.ts';

/** When to try again where there are too many, seconds. */
const RETRY_AFTER_SECONDS = 5;

/** The owners of a stream. */
export interface PlaceOwner {
  readonly workspaceId: string;
  readonly organizationId: string;
  /** Of an API key the account that made it: more keys or organizations are not more accounts. */
  readonly accountId: string;
}

/** Room for one stream. */
export class Place {
  readonly owner: PlaceOwner;
  /** Ends the stream that has the place; undefined until it is open. */
  evict: (() => void) | undefined;

  constructor(owner: PlaceOwner) {
    this.owner = owner;
  }
}

/**
 * Counts the places of live streams. Where all are taken, an account with fewer streams gets one of the account that has
 * most, as long as it then has no more than that one: so nobody who comes first keeps others out.
 */
export class Places {
  readonly #limits: LiveLimits;
  /** By account, in the order in which they were taken. */
  readonly #ofAccounts = new Map<string, Set<Place>>();
  readonly #ofWorkspaces = new Map<string, number>();
  readonly #ofOrganizations = new Map<string, number>();
  #total = 0;

  constructor(limits: LiveLimits) {
    this.#limits = limits;
  }

  get total(): number {
    return this.#total;
  }

  /** 429, with the limit that is reached, where there is no place. */
  take(owner: PlaceOwner): Place {
    const { streams, workspaceStreams, organizationStreams, accountStreams } = this.#limits;
    const own = this.#ofAccounts.get(owner.accountId)?.size ?? 0;
    const ofWorkspace = this.#ofWorkspaces.get(owner.workspaceId) ?? 0;
    const ofOrganization = this.#ofOrganizations.get(owner.organizationId) ?? 0;
    if (ofWorkspace >= workspaceStreams) throw tooMany('live_streams_of_workspace', workspaceStreams);
    if (own >= accountStreams) throw tooMany('live_streams_of_account', accountStreams);
    if (ofOrganization >= organizationStreams)
      throw tooMany('live_streams_of_organization', organizationStreams);
    if (this.#total >= streams && !this.#makeRoom(own)) throw tooMany('live_streams', streams);
    const place = new Place(owner);
    const places = this.#ofAccounts.get(owner.accountId) ?? new Set<Place>();
    this.#ofAccounts.set(owner.accountId, places.add(place));
    this.#ofWorkspaces.set(owner.workspaceId, ofWorkspace + 1);
    this.#ofOrganizations.set(owner.organizationId, ofOrganization + 1);
    this.#total++;
    return place;
  }

  /** Gives a place back, once. */
  leave(place: Place): void {
    const { workspaceId, organizationId, accountId } = place.owner;
    const places = this.#ofAccounts.get(accountId);
    if (!places?.delete(place)) return;
    if (places.size === 0) this.#ofAccounts.delete(accountId);
    countDown(this.#ofWorkspaces, workspaceId);
    countDown(this.#ofOrganizations, organizationId);
    this.#total--;
  }

  /** Ends the newest stream of the account that has most, for one that has `own`. */
  #makeRoom(own: number): boolean {
    let most: ReadonlySet<Place> = new Set();
    for (const places of this.#ofAccounts.values()) if (places.size > most.size) most = places;
    if (own + 1 >= most.size) return false;
    const evicted = [...most].findLast(({ evict }) => evict !== undefined);
    if (evicted === undefined) return false;
    this.leave(evicted);
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
