import {
  type History,
  type HistoryEntry,
  type HistoryQuery,
  InvalidInput,
  MAX_HISTORY_FACETS,
} from '@tributary/core';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Child } from '../../../helpers/child.ts';
import { measured } from '../../../helpers/measured.ts';
import { PUT_SIZE } from '../programs/writer.ts';
import { describeLeadingFacet } from './counting.ts';
import { describeTotals } from './grouping.ts';
import {
  entries,
  entry,
  type HistoryHarness,
  type HistoryStore,
  RETENTION_MS,
  START,
  WORKSPACE_ID,
} from './harness.ts';

const KILLS = process.env.TRIBUTARY_TEST_LONG ? 30 : 2;
const KILLS_WITHIN_MS = 180_000 + KILLS * 15_000;
const HISTORIES = process.env.TRIBUTARY_TEST_LONG ? 30 : 10;
const WRITER = new URL('../programs/writer.ts', import.meta.url);

/** The contract of the `History` port. */
export function historyConformance(harness: HistoryHarness): void {
  describe(`the ${harness.name} history`, () => {
    let store: HistoryStore;
    let history: History;
    const children: Child[] = [];
    beforeEach(async () => {
      store = await harness.create();
      history = await harness.open(store.settings);
    });
    afterEach(async () => {
      await Promise.all(children.splice(0).map((child) => child.kill()));
      await history.close();
      await store.dispose();
    });

    const query = (changes: Partial<HistoryQuery> = {}): HistoryQuery => ({
      kind: 'delivery',
      workspaceId: WORKSPACE_ID,
      limit: 100,
      ...changes,
    });
    const list = (changes: Partial<HistoryQuery> = {}) => history.list(query(changes));
    const numbers = (some: readonly HistoryEntry[]) => some.map(({ body }) => body.n);
    const listed = async (expected: readonly number[], changes: Partial<HistoryQuery> = {}) =>
      expect.poll(async () => numbers((await list(changes)).entries), { interval: 20 }).toEqual(expected);
    const allPages = async (changes: Partial<HistoryQuery>) => {
      const pages: HistoryEntry[][] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await list({ ...changes, ...(cursor === undefined ? {} : { cursor }) });
        pages.push([...page.entries]);
        cursor = page.next;
        if (cursor === undefined) return pages;
      }
    };

    describe('a put', () => {
      it('is usually listed within a second', async () => {
        let n = 0;
        const usualMs = async () => {
          const took: number[] = [];
          for (const end = n + 5; n < end; n++) {
            await history.put([entry(n)]);
            const putAt = performance.now();
            await listed([n], { since: START + n });
            took.push(performance.now() - putAt);
          }
          return took.toSorted((a, b) => a - b)[2] ?? Number.POSITIVE_INFINITY;
        };
        expect(await measured(usualMs, (ms) => ms < 1_000)).toBeLessThan(1_000);
      });

      it('is read back unchanged, with the digits of a number that a double cannot hold', async () => {
        const body = {
          text: 'é🚀\0"\\\n\u2028',
          nested: { list: [1, null, true, 'x', 1.5e-7], __proto__: null },
          noDouble: JSON.rawJSON('-8412589630147852369') as never,
        };
        const full = entry(1, { body, facets: { status: 'dead', 'a b': 'é:|,&=\0', empty: '' } });
        await history.put([full]);
        expect(await history.get('delivery', WORKSPACE_ID, full.id)).toEqual(full);
        await expect.poll(async () => (await list()).entries).toEqual([full]);
      });

      it('keeps a detail, which only `get` and lists that ask for it read', async () => {
        const { detail, ...whole } = entry(1, {
          detail: { event: { text: 'é"\\\n', n: JSON.rawJSON('0.12345678901234567891') as never } },
        });
        await history.put([{ ...whole, ...(detail && { detail }) }, entry(2)]);
        expect(await history.get('delivery', WORKSPACE_ID, whole.id)).toEqual({ ...whole, detail });
        await listed([2, 1]);
        expect((await list()).entries[1]).toEqual(whole);
        expect((await list({ details: true })).entries).toMatchObject([{ id: entry(2).id }, { detail }]);
        await history.put([{ ...whole, version: whole.version + 1 }]);
        expect(await history.get('delivery', WORKSPACE_ID, whole.id)).not.toHaveProperty('detail');
      });

      it('does not duplicate an entry that is already stored', async () => {
        await history.put([entry(1), entry(2), entry(1)]);
        await history.put([entry(1)]);
        await listed([2, 1]);
      });

      it('of no entries succeeds', async () => {
        await history.put([]);
        expect((await list()).entries).toEqual([]);
      });

      it('of as many entries as a batch of events can produce is accepted', async () => {
        await history.put(entries(0, 3_000));
        await expect.poll(async () => (await list({ limit: 5_000 })).entries.length).toBe(3_000);
      });

      it('is kept through closing and opening', async () => {
        await history.put([entry(1)]);
        await history.close();
        history = await harness.open(store.settings);
        await listed([1]);
      });

      it('is kept for the retention from then on, although its event is older than that', async () => {
        const old = [0, 1, 2].map((n) => entry(n, { at: START - 2 * RETENTION_MS + n }));
        await history.put(old);
        await history.put(entries(3, 300));
        for (const each of old) expect(await history.get('delivery', WORKSPACE_ID, each.id)).toEqual(each);
        await listed([2, 1, 0], { until: START });
      });

      it('of an entry with more facets than are allowed is refused as a whole', async () => {
        const facets = (count: number) =>
          Object.fromEntries(Array.from({ length: count }, (_, n) => [`facet_${n}`, 'x']));
        const most = entry(1, { facets: facets(MAX_HISTORY_FACETS) });
        const tooMany = entry(2, { facets: facets(MAX_HISTORY_FACETS + 1) });
        await expect(history.put([most, tooMany])).rejects.toThrow(InvalidInput);
        expect(await history.get('delivery', WORKSPACE_ID, most.id)).toBeUndefined();
        await history.put([most]);
        await expect.poll(async () => numbers((await allPages({ facets: most.facets })).flat())).toEqual([1]);
      });

      it('in progress is complete when close resolves', async () => {
        const put = history.put(entries(0, 400));
        await history.close();
        await put;
        history = await harness.open(store.settings);
        await listed([399], { limit: 1 });
        expect(await history.get('delivery', WORKSPACE_ID, entry(0).id)).toEqual(entry(0));
      });
    });

    describe('a list', () => {
      it('is filtered by time: from since on, before until', async () => {
        await history.put(entries(0, 10));
        await listed([7, 6, 5, 4], { since: START + 4, until: START + 8 });
        await listed([6, 4], { since: START + 4, until: START + 8, facets: { status: 'dead' } });
        await listed([9], { since: START + 9 });
        await listed([0], { until: START + 1 });
        await listed([], { since: START + 5, until: START + 5 });
      });

      it('has entries of one kind and one workspace only', async () => {
        await history.put([
          entry(1),
          entry(2, { kind: 'violation' }),
          entry(3, { kind: 'audit' }),
          entry(4, { workspaceId: 'another' }),
        ]);
        await listed([1]);
        await listed([2], { kind: 'violation' });
        await listed([3], { kind: 'audit' });
        await listed([4], { workspaceId: 'another' });
        await listed([], { workspaceId: 'a third' });
        expect(await history.get('delivery', 'another', entry(1).id)).toBeUndefined();
        expect(await history.get('violation', WORKSPACE_ID, entry(1).id)).toBeUndefined();
        expect(await history.get('delivery', WORKSPACE_ID, 'unknown')).toBeUndefined();
      });
    });

    describe('entries of a kind with a leading facet', () => describeLeadingFacet(() => history));
    describeTotals(() => history, HISTORIES);

    describe('pages', () => {
      it('contain each entry once, and state when there are no more', async () => {
        await history.put(entries(0, 25));
        await listed([24], { limit: 1 });
        const pages = await allPages({ limit: 10 });
        expect(pages.map(({ length }) => length)).toEqual([10, 10, 5]);
        expect(numbers(pages.flat())).toEqual(Array.from({ length: 25 }, (_, n) => 24 - n));
        expect((await allPages({ limit: 25 })).map(({ length }) => length)).toEqual([25]);
      });

      it('neither repeat nor skip entries that existed at the first page, with any puts meanwhile', async () => {
        const old = entries(0, 100).map((each) => ({ ...each, at: START + 10 * (each.at - START) }));
        await history.put(old);
        await expect.poll(async () => (await list()).entries.length).toBe(100);
        const seen: HistoryEntry[] = [];
        for (let cursor: string | undefined, page = 0; ; page++) {
          const { entries: found, next } = await list({
            limit: 7,
            ...(cursor === undefined ? {} : { cursor }),
          });
          seen.push(...found);
          if (next === undefined) break;
          cursor = next;
          await history.put([
            entry(10_000 + page),
            ...entries(0, 9).map((each) => entry(500 + page, { id: `${page}-${each.id}` })),
          ]);
        }
        const ids = seen.map(({ id }) => id);
        expect(new Set(ids).size).toBe(ids.length);
        for (const { id } of old) expect(ids).toContain(id);
      });

      it('of a list filtered by four facets contain each match once, with any number of matches', async () => {
        const facets = (n: number) => ({
          a: n % 5 === 0 ? 'no' : 'yes',
          b: n % 5 === 1 ? 'no' : 'yes',
          c: n % 5 === 2 ? 'no' : 'yes',
          d: n % 5 === 3 ? 'no' : 'yes',
        });
        await history.put(Array.from({ length: 100 }, (_, n) => entry(n, { facets: facets(n) })));
        const wanted = Array.from({ length: 20 }, (_, n) => 99 - 5 * n);
        for (const limit of [1, 3, 20, 50])
          await expect
            .poll(async () => numbers((await allPages({ facets: facets(4), limit })).flat()))
            .toEqual(wanted);
      });

      it.each([
        '',
        'x',
        '!',
        '[]',
        'bnVsbA',
        Buffer.from('{"at":1}').toString('base64url'),
        'x'.repeat(10_000),
      ])('refuse an invalid cursor: %.20s', async (cursor) => {
        await expect(list({ cursor })).rejects.toThrow(InvalidInput);
      });
    });

    it('closes twice', async () => {
      await history.close();
      await history.close();
    });

    it('lists like a sorted and filtered array', async () => {
      const some = fc
        .record({
          n: fc.nat({ max: 30 }),
          version: fc.nat({ max: 3 }),
          status: fc.constantFrom('dead', 'retrying'),
          destination_id: fc.constantFrom('a', 'b'),
        })
        .map(({ n, version, ...facets }) =>
          entry(n % 7, { id: `e-${n}`, at: START + (n % 7), version, facets, body: { n } }),
        );
      const model = new Map<string, HistoryEntry>();
      await fc.assert(
        fc.asyncProperty(fc.array(some, { maxLength: 6 }), async (puts) => {
          await history.put(puts);
          for (const put of puts)
            if (put.version >= (model.get(put.id)?.version ?? 0)) model.set(put.id, put);
          const sorted = [...model.values()].sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
          for (const facets of [{}, { status: 'dead' }, { status: 'retrying', destination_id: 'b' }]) {
            const wanted = sorted.filter((each) =>
              Object.entries(facets).every(([name, value]) => each.facets[name] === value),
            );
            await listed(numbers(wanted) as number[], { facets });
          }
        }),
        { numRuns: HISTORIES },
      );
    });

    it(
      'keeps the acknowledged entries of a killed process, once in every list',
      async () => {
        for (let kill = 0; kill < KILLS; kill++) {
          const first = kill * 100_000;
          const child = new Child(WRITER, [harness.module, store.settings, String(first), String(START)]);
          children.push(child);
          await child.wrote(2 + kill * 3);
          await child.kill();
          const last = Number(child.lines.at(-1)) + PUT_SIZE;
          const range = { since: START + first, limit: 10_000 };
          await expect
            .poll(async () => (await list(range)).entries.length)
            .toBeGreaterThanOrEqual(last - first);
          const found = (await list(range)).entries;
          for (const { id, body } of found) expect(id).toBe(entry(Number(body.n)).id);
          const dead = (await list({ ...range, facets: { status: 'dead' } })).entries;
          expect(dead).toEqual(found.filter(({ facets }) => facets.status === 'dead'));
          await history.put(entries(first, last + PUT_SIZE));
          await expect.poll(async () => (await list(range)).entries.length).toBe(last + PUT_SIZE - first);
        }
      },
      KILLS_WITHIN_MS,
    );
  });
}
