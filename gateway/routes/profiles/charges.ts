import { LeakyShares, type Organization } from '@tributary/core';
import type { FastifyReply } from 'fastify';
import { ApiError } from '../../errors/api-error.ts';
import { disconnectSignal, FairSemaphore } from '../../limits/fair-semaphore.ts';

/** Characters of large profiles that an organization may read and rewrite a second; default of the setting. */
const PER_SECOND = 1024 * 1024;
/** So many seconds of it at once. */
const BURST_SECONDS = 4;
/** A read costs a quarter of a write: nothing is stored and published. */
const READ_PART = 1 / 4;
/** Characters of one found profile, and of all of one search, that are free of charge. */
const UNCHARGED_PROFILE = 32 * 1024;
const UNCHARGED_SEARCH = 4 * 1024 * 1024;
/** A search for more values takes its turn among the large calls. */
const MANY_VALUES = 50;

/** Large calls at a time, of all organizations: a record of 200 KB occupies the thread for 10 ms. */
const LARGE_CALLS = { concurrency: 2, maxWaiting: 1_000, maxWaitingPerOwner: 200, retryAfterSeconds: 5 };

/**
 * Limits what each organization costs the others by large profiles: its calls are charged by the size of the profiles that
 * they read and rewrite, and wait for each other while the organization works with large ones.
 */
export class ProfileCharges {
  readonly #shares: LeakyShares;
  readonly #perSecond: number;
  readonly #large = new FairSemaphore(LARGE_CALLS);

  constructor(perSecond = PER_SECOND, elapsed = () => performance.now()) {
    this.#perSecond = perSecond;
    this.#shares = new LeakyShares({ perSecond, burst: perSecond * BURST_SECONDS, elapsed });
  }

  /**
   * Runs a call of the organization. 429 when the charges of its earlier calls exceed its share, and when too many of its
   * large calls wait. `values`: those that the call looks up.
   */
  async run<T>(
    { id }: Pick<Organization, 'id'>,
    reply: FastifyReply,
    call: () => Promise<T>,
    values = 1,
  ): Promise<T> {
    const wait = this.#shares.waitMs(id);
    if (wait > 0)
      throw new ApiError(429, 'too many requests', {
        fields: { quota: 'large_profiles', limit: this.#perSecond },
        retryAfterSeconds: Math.ceil(wait / 1_000),
      });
    if (values <= MANY_VALUES && !this.#shares.isInUse(id)) return call();
    return this.#large.run(id, disconnectSignal(reply), call);
  }

  /** Charges a write. */
  charge({ id }: Pick<Organization, 'id'>, { charge = 0 }: { readonly charge?: number }): void {
    this.#shares.charge(id, charge);
  }

  /** Charges a search. `sizes`: characters of the found profiles. */
  chargeFound({ id }: Pick<Organization, 'id'>, sizes: readonly number[]): void {
    let [all, charge] = [0, 0];
    for (const size of sizes) {
      all += size;
      charge += Math.max(0, size - UNCHARGED_PROFILE);
    }
    this.#shares.charge(id, Math.max(charge, all - UNCHARGED_SEARCH) * READ_PART);
  }
}
