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

/** Sends a change through the limits of a gateway, which folds what it appends. */
function sender(options: Partial<ChangeLimitsOptions> = {}) {
  const limits = new ChangeLimits({ quotas: DEFAULT_QUOTAS, elapsed: () => 0, ...options });
  const state = new CatalogState();
  let position = 0;
  const fold = async (fact: Fact) => applyFact(state, fact, position++);
  void fold(founded);
  return (fact: Fact, change: Partial<Change> = {}, append = () => fold(fact)) =>
    limits.admit({ fact, bytes: 1, account: 'ann', scope: 'w', ...change }, () => state, append);
}

describe('concurrent creates', () => {
  it('fail together when the log does not answer, instead of one after the other', async () => {
    const send = sender();
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
    await send(source('later'));
  });
});

describe('a change', () => {
  it('is accepted after any number of others if it removes something', async () => {
    const send = sender({ rates: { perScope: 2, perAccount: 100 } });
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
    const send = sender({ storage: { budgets, metrics: NO_METRICS, count } });
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
    const send = sender({ rates: { perScope: 100, perAccount: 10 } });
    const update = { ...about, type: 'source.updated', entity: 's', data: { name: 'x' } } as const;
    await send(source('s'));
    for (let n = 0; n < 4; n++) await send(update, { scope: `w${n}` });
    await send(update, { bytes: 5 * 16 * 1024 });
    const beyond = { fields: { quota: 'changes_per_minute_of_account', limit: 10 } };
    await expect(send(update, { scope: 'w9' })).rejects.toMatchObject(beyond);
    await send(update, { account: 'bob' });
  });
});
