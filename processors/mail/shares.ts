import type { Clock } from '@tributary/core';

/** A mail, as far as its share is concerned. */
export interface SharedMail {
  readonly organizationId: string;
  readonly to: string;
  /** A mail with the link that confirms its address, which may be that of somebody who knows nothing of it. */
  readonly isLink: boolean;
}

export interface MailShareOptions {
  /** Least time between two mails of an organization to an address, ms. */
  readonly everyMs: number;
  /** Mails of an organization in an hour; to one address, and of links, a third of it. */
  readonly perHour: number;
  /** A monotonic clock, ms. */
  readonly elapsed: Clock;
}

const HOUR_MS = 3_600_000;
/** Links to one address in an hour, of all organizations: nobody there has agreed to receive them. */
const LINKS_PER_ADDRESS = 4;
/** Links of one organization to one address in an hour: less, so that it does not keep those of another one away. */
const LINKS_PER_ORGANIZATION = 2;

/**
 * The mailbox of an address, as most providers have it: without case, without the tag of the local part, without a dot behind the
 * domain. For limits alone.
 */
export function mailboxOf(address: string): string {
  const at = address.lastIndexOf('@');
  const [local = ''] = address.slice(0, Math.max(0, at)).split('+');
  return `${local}@${address.slice(at + 1).replace(/\.+$/, '')}`.toLowerCase();
}

/** The mails that an organization, and an address, may still get. What is beyond a share waits for the next mail. */
export class MailShares {
  readonly #pace: Buckets;
  readonly #organizations: Buckets;
  readonly #addresses: Buckets;
  readonly #links: Buckets;
  readonly #linkAddresses: Buckets;
  readonly #linksOfBoth: Buckets;

  constructor({ everyMs, perHour, elapsed }: MailShareOptions) {
    // A bucket of half the rate that refills at half the rate: never more than the rate in an hour.
    const hourly = (mails: number) =>
      new Buckets(Math.max(1, mails / 2), HOUR_MS / Math.max(1, mails / 2), elapsed);
    this.#pace = new Buckets(1, everyMs, elapsed);
    this.#organizations = hourly(perHour);
    this.#addresses = hourly(perHour / 3);
    this.#links = hourly(perHour / 3);
    this.#linkAddresses = hourly(LINKS_PER_ADDRESS);
    this.#linksOfBoth = hourly(LINKS_PER_ORGANIZATION);
  }

  allows(mail: SharedMail): boolean {
    return this.#bucketsOf(mail).every(([buckets, name]) => buckets.has(name));
  }

  /** Counts a mail that the server has decided about. */
  count(mail: SharedMail): void {
    for (const [buckets, name] of this.#bucketsOf(mail)) buckets.take(name);
  }

  #bucketsOf({ organizationId, to, isLink }: SharedMail): readonly (readonly [Buckets, string])[] {
    const mailbox = mailboxOf(to);
    const both = `${organizationId} ${mailbox}`;
    return isLink
      ? [
          [this.#pace, `link ${both}`],
          [this.#links, organizationId],
          [this.#linkAddresses, mailbox],
          [this.#linksOfBoth, both],
        ]
      : [
          [this.#pace, both],
          [this.#organizations, organizationId],
          [this.#addresses, both],
        ];
  }
}

const MAX_BUCKETS = 10_000;

/** Token buckets by name, that can be asked without taking. */
class Buckets {
  readonly #size: number;
  readonly #refillMs: number;
  readonly #elapsed: Clock;
  /** When each bucket will be full again; without an entry it is full. */
  readonly #fullAt = new Map<string, number>();

  /** `refillMs`: the time in which one token is added. */
  constructor(size: number, refillMs: number, elapsed: Clock) {
    this.#size = size;
    this.#refillMs = refillMs;
    this.#elapsed = elapsed;
  }

  has(name: string): boolean {
    const missingMs = (this.#fullAt.get(name) ?? 0) - this.#elapsed();
    return missingMs <= (this.#size - 1) * this.#refillMs;
  }

  take(name: string): void {
    const now = this.#elapsed();
    if (this.#fullAt.size >= MAX_BUCKETS)
      for (const [each, fullAt] of this.#fullAt) if (fullAt <= now) this.#fullAt.delete(each);
    this.#fullAt.set(name, Math.max(now, this.#fullAt.get(name) ?? 0) + this.#refillMs);
  }
}
