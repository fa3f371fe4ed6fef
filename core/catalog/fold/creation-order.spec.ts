import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Created, CreationOrder, GroupedOrder, isOlder, mergeNewestFirst } from './creation-order.ts';

interface Item extends Created {
  readonly group: string;
}

const at = (ms: number) => new Date(ms).toISOString();
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
  it('are those that were put and not removed, each at its place, whole and by group', () => {
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
        const place = { id: String(from), created_at: timeOf(String(from)) };
        const of = (group?: string) =>
          sorted(model.values()).filter((item) => group === undefined || item.group === group);
        expect([...order.all.newestFirst()]).toEqual(of());
        expect(order.all.size).toBe(model.size);
        expect(ids(order.all.newestFirst(place))).toEqual(ids(of().filter((item) => isOlder(item, place))));
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

  it('of several lists are one list, with each item once', () => {
    const items = Array.from({ length: 30 }, (_, n) => ({ id: String(n), created_at: at(n % 7) }));
    const lists = [0, 1, 2].map(
      (list) => new CreationOrder(items.filter((_, n) => n % 3 === list || n % 5 === list)),
    );
    expect(ids(mergeNewestFirst(lists))).toEqual(ids(sorted(items)));
    const [, , , fourth] = sorted(items);
    expect(ids(mergeNewestFirst(lists, fourth))).toEqual(ids(sorted(items).slice(4)));
    expect([...mergeNewestFirst([])]).toEqual([]);
  });

  it('were sorted anew for each page: a page among a hundred thousand looks at few of them', () => {
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
