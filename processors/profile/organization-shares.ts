import { type Charged, type Clock, TokenBuckets } from '@tributary/core';

/**
 * Characters of large profiles of an organization that the stage reads and rewrites a second, and at once, beyond which its
 * events are diverted. Protects the events of others in the batch; those of calls are charged at the gateway.
 */
const PER_SECOND = 1024 * 1024;
const BURST = 1024 * 1024;
/** An organization with large profiles keeps few writers busy for so long after its last one, ms. */
const REMEMBERED_MS = 10 * 60_000;
const MAX_REMEMBERED = 10_000;
/** Diverted events that this process has not met in the slow queue after so long are with another process, ms. */
const ELSEWHERE_AFTER_MS = 60_000;

interface Diverted {
  events: number;
  /** When the first of them was diverted, or this process last met one in the slow queue. */
  metAt: number;
}

/**
 * The share of each organization in the stage `profile` of this process. Ordinary events are never charged, however many. The
 * events of an organization over its share go through the slow queue, and so do all that follow until the queue has
 * none of it left: the events of a person stay in order.
 */
export class OrganizationShares {
  readonly #elapsed: Clock;
  readonly #shares: TokenBuckets;
  /** When each organization was charged last. */
  readonly #chargedAt = new Map<string, number>();
  readonly #diverted = new Map<string, Diverted>();

  constructor(elapsed: Clock) {
    this.#elapsed = elapsed;
    this.#shares = new TokenBuckets({ perSecond: PER_SECOND, burst: BURST, clock: elapsed });
  }

  charge(organization: string, { charge }: Charged): void {
    if (charge === undefined) return;
    this.#shares.charge(organization, charge);
    this.#chargedAt.delete(organization);
    const [oldest] = this.#chargedAt.keys();
    if (this.#chargedAt.size >= MAX_REMEMBERED && oldest !== undefined) this.#chargedAt.delete(oldest);
    this.#chargedAt.set(organization, this.#elapsed());
  }

  /** Whether the organization wrote large profiles lately. */
  hasLarge(organization: string): boolean {
    const at = this.#chargedAt.size === 0 ? undefined : this.#chargedAt.get(organization);
    return at !== undefined && this.#elapsed() - at < REMEMBERED_MS;
  }

  /** Whether the next event of the organization goes to the slow queue. */
  goesToSlowQueue(organization: string): boolean {
    if (this.#shares.waitMs(organization) > 0) return true;
    const diverted = this.#diverted.size === 0 ? undefined : this.#diverted.get(organization);
    if (diverted === undefined) return false;
    if (diverted.events > 0 && this.#elapsed() - diverted.metAt < ELSEWHERE_AFTER_MS) return true;
    this.#diverted.delete(organization);
    return false;
  }

  /** An event was diverted. */
  divert(organization: string): void {
    const diverted = this.#diverted.get(organization) ?? { events: 0, metAt: this.#elapsed() };
    diverted.events += 1;
    this.#diverted.set(organization, diverted);
  }

  /** An event of the slow queue was written. */
  caughtUp(organization: string): void {
    const diverted = this.#diverted.get(organization);
    if (diverted === undefined) return;
    diverted.events -= 1;
    diverted.metAt = this.#elapsed();
    if (diverted.events <= 0) this.#diverted.delete(organization);
  }
}
