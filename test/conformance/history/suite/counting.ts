import type { History, HistoryCountQuery } from '@tributary/core';
import { expect, it } from 'vitest';
import { entry, START, WORKSPACE_ID } from './harness.ts';

const HOUR_MS = 3_600_000;
const hourOf = (at: number) => Math.floor(at / HOUR_MS) * HOUR_MS;

/** The guarantees for a kind with lists that are always narrowed by one facet. */
export function describeLeadingFacet(history: () => History): void {
  const pagesOf = async (facets: Readonly<Record<string, string>>) => {
    const found: unknown[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await history().list({
        kind: 'violation',
        workspaceId: WORKSPACE_ID,
        facets,
        limit: 7,
        ...(cursor === undefined ? {} : { cursor }),
      });
      found.push(...page.entries.map(({ body }) => body.n));
      cursor = page.next;
      if (cursor === undefined) return found;
    }
  };
  const violation = (n: number) =>
    entry(n, {
      kind: 'violation',
      facets: {
        contract_id: `c-${n % 2}`,
        kind: n % 3 === 0 ? 'type' : 'required',
        path: `/p-${n % 5}`,
        action: n % 7 === 0 ? 'blocked' : 'warned',
        contract_version: String(n % 4),
        environment: n % 11 === 0 ? 'development' : 'production',
      },
    });
  const all = Array.from({ length: 120 }, (_, n) => violation(n));
  const narrowed = [
    {},
    { contract_id: 'c-1' },
    { contract_id: 'c-1', contract_version: '3' },
    { contract_id: 'c-0', environment: 'development' },
    { contract_id: 'c-1', kind: 'type', path: '/p-2' },
    { contract_id: 'c-1', kind: 'type', path: '/p-2', action: 'blocked', contract_version: '3' },
    { kind: 'type' },
    { kind: 'type', action: 'blocked' },
  ];

  it('are found by any of their facets, alone and together, and counted by them', async () => {
    await history().put(all);
    await expect.poll(async () => (await pagesOf({})).length).toBe(all.length);
    for (const facets of narrowed) {
      const wanted = all
        .filter((each) => Object.entries(facets).every(([name, value]) => each.facets[name] === value))
        .map(({ body }) => body.n)
        .reverse();
      expect(await pagesOf(facets)).toEqual(wanted);
      const counts = await history().countByHour({
        kind: 'violation',
        workspaceId: WORKSPACE_ID,
        facets,
        fromHour: hourOf(START),
        toHour: hourOf(START + 119),
      });
      expect(counts.reduce((sum, { count }) => sum + count, 0)).toBe(wanted.length);
    }
  });
}

/** The contract of `countByHour`. */
export function describeCounting(history: () => History): void {
  const count = (changes: Partial<HistoryCountQuery> = {}) =>
    history().countByHour({
      kind: 'delivery',
      workspaceId: WORKSPACE_ID,
      fromHour: hourOf(START) - 3 * HOUR_MS,
      toHour: hourOf(START),
      ...changes,
    });
  const at = (hoursAgo: number, ms: number) => hourOf(START) - hoursAgo * HOUR_MS + ms;

  it('report how many there are, oldest hour first, within the hours asked for', async () => {
    expect(await count()).toEqual([]);
    await history().put([
      entry(1, { at: at(0, 0) }),
      entry(2, { at: at(1, HOUR_MS - 1) }),
      entry(3, { at: at(1, 0) }),
      entry(4, { at: at(3, 0) }),
      entry(5, { at: at(4, HOUR_MS - 1) }),
      entry(6, { at: at(-1, 0) }),
      entry(7, { at: at(1, 5), workspaceId: 'another' }),
      entry(8, { at: at(1, 5), kind: 'audit' }),
    ]);
    const told = [
      { hour: at(3, 0), count: 1 },
      { hour: at(1, 0), count: 2 },
      { hour: at(0, 0), count: 1 },
    ];
    await expect.poll(() => count()).toEqual(told);
    expect(await count({ fromHour: at(1, 0), toHour: at(1, 0) })).toEqual([told[1]]);
    expect(await count({ facets: { status: 'dead' } })).toEqual([
      { hour: at(3, 0), count: 1 },
      { hour: at(1, 0), count: 1 },
    ]);
    expect(await count({ facets: { status: 'dead', destination_id: 'place-2' } })).toEqual([
      { hour: at(1, 0), count: 1 },
    ]);
  });

  it('count thousands, narrowed by more than is indexed too', async () => {
    const facets = (n: number) => ({ a: 'x', b: 'y', c: n % 3 === 0 ? 'rare' : 'common' });
    const many = Array.from({ length: 12_000 }, (_, n) =>
      entry(n, { at: at(n % 2, n % 1_000), facets: facets(n) }),
    );
    await history().put(many);
    const both = (each: number) => [
      { hour: at(1, 0), count: each },
      { hour: at(0, 0), count: each },
    ];
    await expect.poll(() => count({ facets: { a: 'x' } })).toEqual(both(6_000));
    expect(await count({ facets: facets(0) })).toEqual(both(2_000));
  });
}
