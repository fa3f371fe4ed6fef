import {
  type CatalogView,
  type CountWritten,
  exceededQuota,
  type Fact,
  organizationScope,
  type Quotas,
  type QuotaUse,
  quotaUses,
  TokenBuckets,
  type Verdict,
} from '@tributary/core';
import { ApiError, tooManyRequests } from '../errors/api-error.ts';
import { type Budgeted, refuseChangeOverBudget } from './storage-budgets.ts';

export interface ChangeRates {
  /** Changes a minute of one workspace, or of an organization outside of its workspaces. */
  readonly perScope: number;
  /** Changes a minute of one account and the keys that it created, in all scopes. */
  readonly perAccount: number;
}

export interface ChangeLimitsOptions {
  readonly quotas: Quotas;
  /** Absent: unlimited. */
  readonly rates?: ChangeRates;
  /** Absent: changes count for no budget of bytes. */
  readonly storage?: Budgeted & { readonly count: CountWritten };
  /** A monotonic clock, ms. */
  readonly elapsed: () => number;
}

/** A change to be appended to the catalog. */
export interface Change {
  readonly fact: Fact;
  readonly bytes: number;
  /** The account of the caller; for a key, the account that created it. */
  readonly account: string;
  /** The workspace, else the organization, that the change belongs to. */
  readonly scope: string | undefined;
}

/** A fact counts as one change for each started block of this size, as the log keeps all of it. */
const BYTES_OF_A_CHANGE = 16 * 1024;
/** A change of this size, bytes, takes part in budgets of bytes. A rule that is disabled and a name are smaller. */
const LARGE_CHANGE = 1_024;
/** Concurrent quota-relevant appends of one scope: the number by which several gateways can exceed a quota. */
const APPENDS_PER_SCOPE = 4;
/** Removals are not rate limited: each was counted when it was added, and must always be possible. */
const REMOVES = /\.(revoked|removed|deleted|archived|cancelled)$/;

/**
 * Bounds the changes that callers make to the catalog: by quotas (409) and by rate (429).
 *
 * The fold cannot check quotas: they are settings of a process, and its verdicts must be the same in all. They are checked
 * before a fact is appended, against this process's state plus its own appends in flight, so one gateway never exceeds a
 * quota. Several gateways may, each by its appends in flight when another one filled the quota: at most
 * `APPENDS_PER_SCOPE`, as an append ends when this process has folded the fact and all facts before it.
 */
export class ChangeLimits {
  readonly #quotas: Quotas;
  readonly #rates: ChangeRates | undefined;
  readonly #storage: ChangeLimitsOptions['storage'];
  readonly #ofScopes: TokenBuckets;
  readonly #ofAccounts: TokenBuckets;
  /** Amounts that appends in flight add, by quota and scope. */
  readonly #pending = new Map<string, number>();
  readonly #appends = new ScopedConcurrency();

  constructor({ quotas, rates, storage, elapsed }: ChangeLimitsOptions) {
    this.#quotas = quotas;
    this.#storage = storage;
    this.#rates = rates;
    const bucketsOf = (perMinute = 1) =>
      new TokenBuckets({ perSecond: perMinute / 60, burst: perMinute, clock: elapsed });
    this.#ofScopes = bucketsOf(rates?.perScope);
    this.#ofAccounts = bucketsOf(rates?.perAccount);
  }

  /**
   * Appends a change. 429 above a rate, and for a large change beyond a budget of bytes; 409 above a quota. `state` is called
   * each time the current state is needed.
   */
  async admit(change: Change, state: () => CatalogView, append: () => Promise<Verdict>): Promise<Verdict> {
    const { fact, bytes, scope } = change;
    const isLarge = !REMOVES.test(fact.type) && bytes >= LARGE_CHANGE;
    const bytesScope = isLarge && scope !== undefined ? bytesScopeOf(scope, state()) : undefined;
    const storage = bytesScope === undefined ? undefined : this.#storage;
    if (storage === undefined || bytesScope === undefined) return this.#admit(change, state, append);
    refuseChangeOverBudget(storage, bytesScope);
    const verdict = await this.#admit(change, state, append);
    const counted = [{ scope: bytesScope, received: 0, written: bytes }];
    storage.budgets?.add(counted);
    await storage.count(counted);
    return verdict;
  }

  async #admit(change: Change, state: () => CatalogView, append: () => Promise<Verdict>): Promise<Verdict> {
    const { fact } = change;
    if (!REMOVES.test(fact.type)) this.#consumeRates(change);
    // Evaluated again after waiting: the state may have changed meanwhile.
    if (quotaUses(fact, state()).length === 0) return append();
    return this.#appends.run(change.scope ?? change.account, async () => {
      const uses = quotaUses(fact, state());
      const exceeded = exceededQuota(uses, this.#quotas, (use) => this.#pending.get(nameOf(use)) ?? 0);
      if (exceeded !== undefined) throw quotaExceeded(exceeded.quota, this.#quotas[exceeded.quota]);
      this.#addPending(uses, 1);
      try {
        return await append();
      } finally {
        this.#addPending(uses, -1);
      }
    });
  }

  #consumeRates({ account, scope, bytes }: Change): void {
    if (this.#rates === undefined) return;
    const { perScope, perAccount } = this.#rates;
    const changes = Math.ceil(bytes / BYTES_OF_A_CHANGE);
    const check = (waitMs: number, quota: string, limit: number) => {
      if (waitMs > 0) throw tooManyRequests(Math.ceil(waitMs / 1_000), { quota, limit });
    };
    if (scope !== undefined) check(this.#ofScopes.take(scope, changes), 'changes_per_minute', perScope);
    check(this.#ofAccounts.take(account, changes), 'changes_per_minute_of_account', perAccount);
  }

  #addPending(uses: readonly QuotaUse[], sign: 1 | -1): void {
    for (const use of uses) {
      const name = nameOf(use);
      const sum = (this.#pending.get(name) ?? 0) + sign * use.adds;
      if (sum > 0) this.#pending.set(name, sum);
      else this.#pending.delete(name);
    }
  }
}

/** The scope that the bytes of a change count for; undefined where its workspace or organization is not known. */
function bytesScopeOf(scope: string, state: CatalogView): string | undefined {
  if (state.workspace(scope) !== undefined) return scope;
  const organization = state.organization(scope);
  return organization && organizationScope(organization.org_id);
}

function nameOf({ quota, scope }: QuotaUse): string {
  return `${quota}:${scope}`;
}

/** 409: the quota is full. Existing entities stay as they are. */
export function quotaExceeded(quota: string, limit: number): ApiError {
  return new ApiError(409, 'quota exceeded', { fields: { quota, limit } });
}

interface ScopeQueue {
  running: number;
  waiting: { begin(): void; fail(error: unknown): void }[];
}

/** Bounds the concurrent appends of each scope. Waiting appends fail together with one that fails: the log does not respond. */
class ScopedConcurrency {
  readonly #queues = new Map<string, ScopeQueue>();

  async run<T>(scope: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(scope) ?? { running: 0, waiting: [] };
    this.#queues.set(scope, queue);
    if (queue.running >= APPENDS_PER_SCOPE)
      await new Promise<void>((begin, fail) => {
        queue.waiting.push({ begin, fail });
      });
    else queue.running++;
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ApiError)) for (const { fail } of queue.waiting.splice(0)) fail(error);
      throw error;
    } finally {
      // A waiter takes over the permit.
      const next = queue.waiting.shift();
      if (next !== undefined) next.begin();
      else queue.running--;
      if (queue.running === 0) this.#queues.delete(scope);
    }
  }
}
