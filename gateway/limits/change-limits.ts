import {
  type CatalogView,
  exceededQuota,
  type Fact,
  type Quotas,
  type QuotaUse,
  quotaUses,
  TokenBuckets,
  type Verdict,
} from '@tributary/core';
import { ApiError } from '../errors/api-error.ts';

export interface ChangeRates {
  /** Changes a minute of one workspace, or of what an organization has beside its workspaces. */
  readonly perScope: number;
  /** Changes a minute of one account and the keys it made, wherever. */
  readonly perAccount: number;
}

export interface ChangeLimitsOptions {
  readonly quotas: Quotas;
  /** Absent: any number. */
  readonly rates?: ChangeRates;
  /** Ms that never go back. */
  readonly elapsed: () => number;
}

/** A change that is to be appended to the catalog. */
export interface Change {
  readonly fact: Fact;
  readonly bytes: number;
  /** The account that calls; of a key the one that made it. */
  readonly account: string;
  /** The workspace, else the organization, that the call is about. */
  readonly scope: string | undefined;
}

/** A fact counts as one change for each so many bytes that it begins: the log keeps all of them. */
const BYTES_OF_A_CHANGE = 16 * 1024;
/** Facts of one scope that fill quotas, on their way to the log at a time: by so many a quota can be exceeded. */
const LANES = 4;
/** Changes that take something away. Each was made room for when it was added, and it must always be possible. */
const REMOVES = /\.(revoked|removed|deleted|archived|cancelled)$/;

/**
 * Bounds the changes that callers make to the catalog: by quotas (409) and in number (429).
 *
 * The fold cannot check quotas, as they differ by process and its verdicts must not. They are checked before a fact is
 * appended, on the state that this process has, together with what it has under way itself: so one gateway never
 * exceeds a quota. Several may: each by the facts it had under way when another filled the quota, which are `LANES` at
 * most, as the answer to each has been folded by this process, with all facts before it, before the next is checked.
 */
export class ChangeLimits {
  readonly #quotas: Quotas;
  readonly #rates: ChangeRates | undefined;
  readonly #ofScopes: TokenBuckets;
  readonly #ofAccounts: TokenBuckets;
  /** What facts under way add, by quota and the scope it is of. */
  readonly #pending = new Map<string, number>();
  readonly #lanes = new Lanes();

  constructor({ quotas, rates, elapsed }: ChangeLimitsOptions) {
    this.#quotas = quotas;
    this.#rates = rates;
    const bucketsOf = (perMinute = 1) =>
      new TokenBuckets({ perSecond: perMinute / 60, burst: perMinute, clock: elapsed });
    this.#ofScopes = bucketsOf(rates?.perScope);
    this.#ofAccounts = bucketsOf(rates?.perAccount);
  }

  /** Appends a change. Throws 429 beyond the rates, 409 beyond a quota. `state` is asked for when it is needed. */
  async admit(change: Change, state: () => CatalogView, append: () => Promise<Verdict>): Promise<Verdict> {
    const { fact } = change;
    if (!REMOVES.test(fact.type)) this.#charge(change);
    // Whether a fact fills a quota may change while it waits: it is looked at twice.
    if (quotaUses(fact, state()).length === 0) return append();
    return this.#lanes.run(change.scope ?? change.account, async () => {
      const uses = quotaUses(fact, state());
      const exceeded = exceededQuota(uses, this.#quotas, (use) => this.#pending.get(nameOf(use)) ?? 0);
      if (exceeded !== undefined) throw quotaExceeded(exceeded.quota, this.#quotas[exceeded.quota]);
      this.#note(uses, 1);
      try {
        return await append();
      } finally {
        this.#note(uses, -1);
      }
    });
  }

  #charge({ account, scope, bytes }: Change): void {
    if (this.#rates === undefined) return;
    const { perScope, perAccount } = this.#rates;
    const changes = Math.ceil(bytes / BYTES_OF_A_CHANGE);
    const ofScope = scope === undefined ? 0 : this.#ofScopes.take(scope, changes);
    if (ofScope > 0) throw tooManyChanges('changes_per_minute', perScope, ofScope);
    const ofAccount = this.#ofAccounts.take(account, changes);
    if (ofAccount > 0) throw tooManyChanges('changes_per_minute_of_account', perAccount, ofAccount);
  }

  #note(uses: readonly QuotaUse[], sign: 1 | -1): void {
    for (const use of uses) {
      const name = nameOf(use);
      const sum = (this.#pending.get(name) ?? 0) + sign * use.adds;
      if (sum > 0) this.#pending.set(name, sum);
      else this.#pending.delete(name);
    }
  }
}

function nameOf({ quota, scope }: QuotaUse): string {
  return `${quota}:${scope}`;
}

/** 409: there is no room for one more; `quota` says of what. Existing ones stay as they are. */
export function quotaExceeded(quota: string, limit: number): ApiError {
  return new ApiError(409, 'quota exceeded', { fields: { quota, limit } });
}

function tooManyChanges(quota: string, limit: number, waitMs: number): ApiError {
  const retryAfterSeconds = Math.ceil(waitMs / 1_000);
  return new ApiError(429, 'too many requests', { fields: { quota, limit }, retryAfterSeconds });
}

interface Lane {
  running: number;
  waiting: { begin(): void; fail(error: unknown): void }[];
}

/** Runs so much work of one name at a time. What waits fails together with work that fails: the log does not answer. */
class Lanes {
  readonly #lanes = new Map<string, Lane>();

  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const lane = this.#lanes.get(name) ?? { running: 0, waiting: [] };
    this.#lanes.set(name, lane);
    if (lane.running >= LANES)
      await new Promise<void>((begin, fail) => {
        lane.waiting.push({ begin, fail });
      });
    else lane.running++;
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ApiError)) for (const { fail } of lane.waiting.splice(0)) fail(error);
      throw error;
    } finally {
      // A waiter takes over the place of what it follows.
      const next = lane.waiting.shift();
      if (next !== undefined) next.begin();
      else lane.running--;
      if (lane.running === 0) this.#lanes.delete(name);
    }
  }
}
