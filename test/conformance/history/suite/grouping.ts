import { groupIdOf, type History, type HistoryEntry } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { describeCounting } from './counting.ts';
import { entry, START, WORKSPACE_ID } from './harness.ts';

/** Groups of few values, so that entries meet in them; facets have the values that groups are selected by. */
const put = fc.record({
  n: fc.nat({ max: 11 }),
  version: fc.integer({ min: 1, max: 4 }),
  status: fc.constantFrom('dead', 'retrying', 'delivered'),
  failure: fc.constantFrom('answered 503', 'timed out', 'é "quoted" \n\0'),
  workspaceId: fc.constantFrom(WORKSPACE_ID, '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a02'),
});

interface Put {
  readonly n: number;
  readonly version: number;
  readonly status: string;
  readonly failure: string;
  readonly workspaceId: string;
}

function grouped({ n, version, status, failure, workspaceId }: Put): HistoryEntry {
  const values = { status, destination_id: `place-${n % 2}`, failure };
  return entry(n, {
    workspaceId,
    version,
    facets: { status, destination_id: values.destination_id },
    ...(status === 'delivered' ? {} : { group: values }),
  });
}

/** The groups of a workspace as `groups` has to return them. */
function expectedGroups(stored: Iterable<HistoryEntry>, values: Readonly<Record<string, string>>) {
  const members = [...stored].filter(({ group }) => group !== undefined);
  return [...Map.groupBy(members, ({ group = {} }) => groupIdOf(group))]
    .map(([id, of]) => {
      const oldest = of.toSorted((a, b) => a.at - b.at)[0];
      const newest = of.toSorted((a, b) => b.at - a.at)[0];
      const own = oldest?.group ?? {};
      const times = { firstAt: oldest?.at, lastAt: newest?.at, newest: newest?.id };
      return { id, values: own, count: of.length, ...times };
    })
    .filter((group) => Object.entries(values).every(([name, value]) => group.values[name] === value))
    .sort((a, b) => b.count - a.count || (a.id < b.id ? -1 : 1));
}

/** The contract of what is counted, by the hour and by group. */
export function describeTotals(history: () => History, histories: number): void {
  describe('counts by the hour', () => describeCounting(history));
  describe('groups', () => describeGrouping(history, histories));
}

/** The contract of `groups`. */
function describeGrouping(history: () => History, histories: number): void {
  const groups = (values: Readonly<Record<string, string>> = {}, limit = 100) =>
    history().groups({ kind: 'delivery', workspaceId: WORKSPACE_ID, values, limit });

  it('are those of the newest version of each entry, after any puts', async () => {
    let round = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(put, { maxLength: 8 }), { maxLength: 5 }), async (puts) => {
        // Each history has workspaces of its own, so that the store need not be emptied.
        round += 1;
        const own = (id: string) => `${id}-${round}`;
        const model = new Map<string, HistoryEntry>();
        for (const some of puts) {
          const entries = some.map((each) => grouped({ ...each, workspaceId: own(each.workspaceId) }));
          await history().put(entries);
          for (const each of entries) {
            const key = `${each.workspaceId} ${each.id}`;
            if ((model.get(key)?.version ?? 0) <= each.version) model.set(key, each);
          }
        }
        const workspaceId = own(WORKSPACE_ID);
        const stored = [...model.values()].filter((each) => each.workspaceId === workspaceId);
        for (const values of [{}, { status: 'dead' }, { status: 'dead', destination_id: 'place-1' }]) {
          const read = () => history().groups({ kind: 'delivery', workspaceId, values, limit: 100 });
          await expect
            .poll(async () => (await read()).groups, { interval: 20 })
            .toEqual(expectedGroups(stored, values));
        }
        for (const { id } of expectedGroups(stored, {})) {
          const members = stored
            .filter(({ group }) => group !== undefined && groupIdOf(group) === id)
            .toSorted((a, b) => b.at - a.at);
          const page = await history().list({ kind: 'delivery', workspaceId, group: id, limit: 100 });
          expect(page.entries.map((each) => each.id)).toEqual(members.map((each) => each.id));
        }
      }),
      { numRuns: histories },
    );
  });

  it('are cut at the limit, the largest first, and say so', async () => {
    const failing = (n: number) =>
      grouped({
        n,
        version: 1,
        status: 'dead',
        failure: n < 6 ? 'timed out' : `kind ${n}`,
        workspaceId: WORKSPACE_ID,
      });
    await history().put(Array.from({ length: 10 }, (_, n) => failing(n)));
    await expect.poll(async () => (await groups()).groups.length).toBe(6);
    expect((await groups({}, 2)).groups.map(({ count }) => count)).toEqual([3, 3]);
    expect([(await groups({}, 2)).more, (await groups({}, 6)).more]).toEqual([true, false]);
    expect((await groups({ status: 'retrying' })).groups).toEqual([]);
  });

  it('list their entries by page, whatever else narrows the list', async () => {
    const all = Array.from({ length: 25 }, (_, n) =>
      grouped({ n: n * 2, version: 1, status: 'dead', failure: 'timed out', workspaceId: WORKSPACE_ID }),
    );
    await history().put([...all, entry(1), entry(3)]);
    await expect.poll(async () => (await groups()).groups[0]?.count).toBe(25);
    const [group] = (await groups()).groups;
    const found: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await history().list({
        kind: 'delivery',
        workspaceId: WORKSPACE_ID,
        ...(group === undefined ? {} : { group: group.id }),
        facets: { status: 'dead', destination_id: 'place-0' },
        since: START + 10,
        limit: 7,
        ...(cursor === undefined ? {} : { cursor }),
      });
      found.push(...page.entries.map(({ id }) => id));
      cursor = page.next;
      if (cursor === undefined) break;
    }
    expect(found).toEqual(
      all
        .slice(5)
        .toReversed()
        .map(({ id }) => id),
    );
    const none = await history().list({
      kind: 'delivery',
      workspaceId: 'other',
      group: group?.id ?? '',
      limit: 5,
    });
    expect(none.entries).toEqual([]);
  });
}
