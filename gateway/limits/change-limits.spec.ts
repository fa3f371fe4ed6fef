import {
  applyFact,
  CatalogState,
  type Fact,
  NO_METRICS,
  QUOTA_NAMES,
  QUOTAS,
  type Quotas,
  type ScopeBytes,
  type StorageVerdict,
  Unavailable,
  type Verdict,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { type Change, ChangeLimits, type ChangeLimitsOptions } from './change-limits.ts';

const DEFAULT_QUOTAS = Object.fromEntries(QUOTA_NAMES.map((name) => [name, QUOTAS[name].fallback])) as Quotas;

const about = {
  v: 1,
  by: 'ann',
  from: { address: '', request_id: '' },
  at: '2026-01-01T00:00:00.000Z',
} as const;

const founded = {
  ...about,
  type: 'workspace.created',
  entity: 'w',
  data: {
    workspace: { id: 'w', name: 'w', organization_id: 'o', region: 'eu', status: 'active' },
    organization: { id: 'o', name: 'o', regions: ['eu'], notification_email: null },
    owner: { account_id: 'ann', organization_id: 'o', role: 'owner' },
  },
} satisfies Fact;

function source(id: string): Fact {
  const fields = { id, workspace_id: 'w', name: id, type: 'web', description: null, created_by: 'ann' };
  return { ...about, type: 'source.created', entity: id, data: { ...fields, status: 'active' } };
}

/** One log, with gateways that fold it on demand. */
class Log {
  readonly facts: Fact[] = [founded];

  gateway(options: Partial<ChangeLimitsOptions> = {}) {
    const quotas = { ...DEFAULT_QUOTAS, sources: 10 };
    const limits = new ChangeLimits({ quotas, elapsed: () => 0, ...options });
    const state = new CatalogState();
    let position = 0;
    const fold = (end: number) => {
      let last: Verdict | undefined;
      for (const fact of this.facts.slice(position, end)) last = applyFact(state, fact, position++);
      return last ?? { applied: true as const, position };
    };
    fold(1);
    const send = (
      fact: Fact,
      change: Partial<Change> = {},
      append = async () => fold(this.facts.push(fact)),
    ) => limits.admit({ fact, bytes: 1, account: 'ann', scope: 'w', ...change }, () => state, append);
    const later = async (fact: Fact) => {
      for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
      const end = this.facts.push(fact);
      for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
      return fold(Math.max(end, position));
    };
    return {
      state,
      send,
      create: (id: string) => {
        const fact = source(id);
        return send(fact, {}, () => later(fact));
      },
    };
  }
}

const statusesOf = (settled: readonly PromiseSettledResult<unknown>[]) =>
  settled.map((each) => (each.status === 'fulfilled' ? 201 : (each.reason as { status?: number }).status));
const created = (settled: readonly PromiseSettledResult<unknown>[]) =>
  statusesOf(settled).filter((status) => status === 201).length;

describe('concurrent creates', () => {
  it('exceeded a quota by their number: one gateway accepts exactly those below the quota', async () => {
    const gateway = new Log().gateway();
    const settled = await Promise.allSettled(Array.from({ length: 70 }, (_, n) => gateway.create(`s${n}`)));
    expect(created(settled)).toBe(10);
    expect(new Set(statusesOf(settled))).toEqual(new Set([201, 409]));
    expect(gateway.state.listing('source', 'w').size).toBe(10);
    await expect(gateway.create('one more')).rejects.toMatchObject({
      status: 409,
      error: 'quota exceeded',
      fields: { quota: 'sources', limit: 10 },
    });
  });

  it('exceed a quota at several gateways only by those in progress at each of them', async () => {
    const log = new Log();
    const gateways = [log.gateway(), log.gateway(), log.gateway()];
    const settled = await Promise.allSettled(
      Array.from({ length: 90 }, (_, n) => gateways[n % 3]?.create(`s${n}`)),
    );
    expect(created(settled)).toBeGreaterThanOrEqual(10);
    expect(created(settled)).toBeLessThanOrEqual(10 + 2 * 4);
    for (const gateway of gateways)
      await expect(gateway.create('more')).rejects.toMatchObject({ status: 409 });
  });

  it('fail together when the log does not answer, instead of one after the other', async () => {
    const { send, create } = new Log().gateway();
    let asked = 0;
    const settled = await Promise.allSettled(
      Array.from({ length: 50 }, (_, n) =>
        send(source(`s${n}`), {}, async () => {
          asked++;
          await new Promise(setImmediate);
          throw new Unavailable('down');
        }),
      ),
    );
    expect(settled.every((each) => each.status === 'rejected' && each.reason instanceof Unavailable)).toBe(
      true,
    );
    expect(asked).toBeLessThanOrEqual(4);
    await create('later');
  });
});

describe('a change', () => {
  it('is accepted after any number of others if it removes something', async () => {
    const { send } = new Log().gateway({ rates: { perScope: 2, perAccount: 100 } });
    const update = { ...about, type: 'source.updated', entity: 's', data: { name: 'x' } } as const;
    const remove = { ...about, type: 'source.deleted', entity: 's', data: {} } as const;
    await send(source('s'));
    await send(update);
    await expect(send(update)).rejects.toMatchObject({
      status: 429,
      retryAfterSeconds: 30,
      fields: { quota: 'changes_per_minute', limit: 2 },
    });
    await send(update, { scope: 'another workspace' });
    expect(await send(remove)).toMatchObject({ applied: true });
  });

  it('filled the disk past all budgets: a large one counts, and is refused beyond a budget', async () => {
    const counted: ScopeBytes[] = [];
    let over: StorageVerdict;
    const budgets = { verdictOf: () => over, verdictOfProfiles: () => over, add() {} } as never;
    const count = async (bytes: Iterable<ScopeBytes>) => void counted.push(...bytes);
    const { send } = new Log().gateway({ storage: { budgets, metrics: NO_METRICS, count } });
    const update = { ...about, type: 'source.updated', entity: 's', data: { name: 'x' } } as const;
    const remove = { ...about, type: 'source.deleted', entity: 's', data: {} } as const;
    await send(source('s'), { bytes: 5_000 });
    await send(update, { bytes: 7_000, scope: 'o' });
    expect(counted).toEqual([
      { scope: 'w', received: 0, written: 5_000 },
      { scope: expect.stringMatching(/^org:/), received: 0, written: 7_000 },
    ]);
    over = { action: 'refuse', budget: 'disk_share', used: 2, limit: 1, retryAfterMs: 60_000 };
    for (const scope of ['w', 'o'])
      await expect(send(update, { bytes: 7_000, scope })).rejects.toMatchObject({
        status: 429,
        fields: { quota: 'disk_share' },
      });
    await send(update, { bytes: 300 });
    expect(await send(remove, { bytes: 7_000 })).toMatchObject({ applied: true });
  });

  it('counts for its account over all workspaces, and by its size', async () => {
    const { send } = new Log().gateway({ rates: { perScope: 100, perAccount: 10 } });
    const update = { ...about, type: 'source.updated', entity: 's', data: { name: 'x' } } as const;
    await send(source('s'));
    for (let n = 0; n < 4; n++) await send(update, { scope: `w${n}` });
    await send(update, { bytes: 5 * 16 * 1024 });
    const beyond = { fields: { quota: 'changes_per_minute_of_account', limit: 10 } };
    await expect(send(update, { scope: 'w9' })).rejects.toMatchObject(beyond);
    await send(update, { account: 'bob' });
  });
});
