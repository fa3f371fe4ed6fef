import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Created, CreationOrder, GroupedOrder, mergeListings } from './creation-order.ts';

interface Item extends Created {
  readonly group: string;
}

const at = (ms: number) => new Date(ms).toISOString();
const isOlder = (a: Created, b: Created) =>
  a.created_at === b.created_at ? a.id < b.id : a.created_at < b.created_at;
const sorted = <I extends Created>(items: Iterable<I>) => [...items].sort((a, b) => (isOlder(a, b) ? 1 : -1));
const ids = (items: Iterable<Created>) => [...items].map(({ id }) => id);

/** Operations on items of few ids, so that they collide. */
const change = fc.record({
  id: fc.integer({ min: 0, max: 12 }).map(String),
  group: fc.constantFrom('on', 'off'),
  removes: fc.boolean(),
});
/** Each id has a fixed time, and several share one. */
const timeOf = (id: string) => at((Number(id) * 7) % 5);

describe('items in creation order', () => {
  it('are those that were added and not removed, in order, as a whole and by group', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), fc.integer({ min: 0, max: 12 }), (changes, from) => {
        const order = new GroupedOrder<Item>(({ group }) => group);
        const model = new Map<string, Item>();
        for (const { id, group, removes } of changes) {
          const before = model.get(id);
          if (removes && before !== undefined) {
            order.remove(before);
            model.delete(id);
          } else if (!removes) {
            const item = { id, group, created_at: timeOf(id) };
            order.put(item, before);
            model.set(id, item);
          }
        }
        const position = { id: String(from), created_at: timeOf(String(from)) };
        const of = (group?: string) =>
          sorted(model.values()).filter((item) => group === undefined || item.group === group);
        expect([...order.all.newestFirst()]).toEqual(of());
        expect(order.all.size).toBe(model.size);
        expect(ids(order.all.newestFirst(position))).toEqual(
          ids(of().filter((item) => isOlder(item, position))),
        );
        for (const group of ['on', 'off', 'none']) {
          expect([...order.group(group).newestFirst()]).toEqual(of(group));
          expect(order.group(group).size).toBe(of(group).length);
        }
        const made = new GroupedOrder<Item>(({ group }) => group, model.values());
        expect([...made.all.newestFirst()]).toEqual(of());
        expect([...made.group('on').newestFirst()]).toEqual(of('on'));
      }),
    );
  });

  it('are read in any order, from any position, also after changes of the sort value', () => {
    const changes = fc.array(
      fc.record({
        id: fc.integer({ min: 0, max: 9 }).map(String),
        name: fc.constantFrom('a', 'B', 'b', 'C', ''),
        updated: fc.integer({ min: 0, max: 4 }),
        removes: fc.boolean(),
      }),
      { maxLength: 40 },
    );
    const orders = ['created_at', 'updated_at', 'name'] as const;
    const position = fc.record({
      key: fc.constantFrom('', 'a', 'b', at(1), at(3)),
      id: fc.constantFrom('0', '4'),
    });
    fc.assert(
      fc.property(
        changes,
        fc.constantFrom(...orders),
        fc.boolean(),
        fc.option(position, { nil: undefined }),
        fc.nat({ max: 40 }),
        (all, field, descending, after, firstRead) => {
          type Named = Item & { readonly name: string; readonly updated_at: string };
          const order = new GroupedOrder<Named>(({ group }) => group);
          const model = new Map<string, Named>();
          for (const [n, { id, name, updated, removes }] of all.entries()) {
            // The order is built at its first read: some changes come before it, some after it.
            if (n === firstRead)
              expect([...order.all.inOrder({ field, descending })]).toHaveLength(model.size);
            const before = model.get(id);
            if (removes) {
              if (before !== undefined) order.remove(before);
              model.delete(id);
              continue;
            }
            const group = updated % 2 === 0 ? 'on' : 'off';
            const item = { id, name, group, created_at: timeOf(id), updated_at: at(updated) };
            order.put(item, before);
            model.set(id, item);
          }
          const text = (item: Named) => (field === 'name' ? item.name.toLowerCase() : item[field]);
          const expected = (group?: string) =>
            [...model.values()]
              .filter((item) => group === undefined || item.group === group)
              .map((item) => [text(item), item.id] as const)
              .sort(([a, x], [b, y]) => (a === b ? (x < y ? -1 : 1) : a < b ? -1 : 1))
              .filter(([key, id]) => {
                if (after === undefined) return true;
                const isLater = key === after.key ? id > after.id : key > after.key;
                return descending ? !isLater && !(key === after.key && id === after.id) : isLater;
              })
              .map(([, id]) => id);
          const inDirection = (found: readonly string[]) => (descending ? found.toReversed() : found);
          expect(ids(order.all.inOrder({ field, descending }, after))).toEqual(inDirection(expected()));
          const on = order.group('on');
          expect(ids(on.inOrder({ field, descending }, after))).toEqual(inDirection(expected('on')));
          const merged = mergeListings([on, order.all, order.group('off')]);
          expect(ids(merged.inOrder({ field, descending }, after))).toEqual(inDirection(expected()));
        },
      ),
    );
  });

  it('were sorted again for each page: a page of a hundred thousand items reads few of them', () => {
    let looks = 0;
    const counted = (n: number): Created => ({
      id: String(n).padStart(6, '0'),
      get created_at() {
        looks++;
        return at(Math.floor(n / 3));
      },
    });
    const looksOf = (count: number) => {
      const items = Array.from({ length: count }, (_, n) => counted(n));
      const order = new CreationOrder(items);
      looks = 0;
      const page = order.newestFirst(items[count >> 1]);
      for (let n = 0; n < 100; n++) page.next();
      order.put(counted(count));
      order.remove(items[count >> 2] ?? counted(0));
      return looks;
    };
    const few = looksOf(400);
    expect(few).toBeGreaterThan(0);
    expect(looksOf(100_000)).toBeLessThan(few + 100);
  });
});
