import { CreationOrder, newId } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type PageRequest, pageOf, pageRequest } from './pagination.ts';

interface Item {
  readonly id: string;
  readonly created_at: string;
}

const at = (ms: number) => new Date(ms).toISOString();

function readAll(
  items: readonly Item[],
  limit: number,
  between: (page: number) => readonly Item[] = () => items,
) {
  const seen: string[] = [];
  let request: PageRequest = { limit, cursor: undefined };
  for (let page = 0; ; page++) {
    const { items: found, next } = pageOf(new CreationOrder(between(page)), request);
    seen.push(...found.map(({ id }) => id));
    if (next === undefined) return seen;
    request = { limit, cursor: next };
  }
}

describe('pageOf', () => {
  it('lists everything once, newest first, whatever the limit', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 30 }),
        fc.integer({ min: 1, max: 10 }),
        (times, limit) => {
          const items = times.map((time) => ({ id: newId(), created_at: at(time) }));
          const expected = items.toSorted((a, b) => (a.created_at + a.id < b.created_at + b.id ? 1 : -1));
          expect(readAll(items, limit)).toEqual(expected.map(({ id }) => id));
        },
      ),
    );
  });

  it('goes on at the same place when the last item of a page was deleted, and when newer ones came', () => {
    const items = [1, 2, 3, 4].map((time) => ({ id: newId(), created_at: at(time) }));
    const [first, second, third, fourth] = items.map(({ id }) => id);
    const later = [...items.filter(({ id }) => id !== third), { id: newId(), created_at: at(9) }];
    expect(readAll(items, 2, (page) => (page === 0 ? items : later))).toEqual([fourth, third, second, first]);
  });

  it('names no next page after the last item', () => {
    const items = [1, 2].map((time) => ({ id: newId(), created_at: at(time) }));
    expect(pageOf(new CreationOrder(items), { limit: 2, cursor: undefined }).next).toBeUndefined();
    expect(pageOf(new CreationOrder<Item>(), { limit: 2, cursor: undefined })).toEqual({
      items: [],
      next: undefined,
    });
  });

  it.each(['x', '!!!', Buffer.from('2020 x').toString('base64url')])('refuses the cursor %j', (cursor) => {
    expect(() => pageOf(new CreationOrder<Item>(), { limit: 1, cursor })).toThrow('invalid request');
  });
});

describe('pageRequest', () => {
  it('has a default and bounds', () => {
    expect(pageRequest({})).toEqual({ limit: 100, cursor: undefined });
    expect(pageRequest({ limit: '1000', cursor: 'c' })).toEqual({ limit: 1000, cursor: 'c' });
    expect(() => pageRequest({ limit: '0' })).toThrow('invalid request');
    expect(() => pageRequest({ limit: '1001' })).toThrow('invalid request');
  });
});
