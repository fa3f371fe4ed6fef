import { CreationOrder, newId } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { byText, catalogList, encodePosition, NEWEST_FIRST } from './lists.ts';

interface Item {
  readonly id: string;
  readonly name: string;
  readonly created_at: string;
}

const list = catalogList<Item>()({
  textOf: ({ name }) => name,
  fields: ['name', 'created_at'],
  filters: { name: byText('Exactly this name.', ({ name }) => name) },
});

const at = (ms: number) => new Date(ms).toISOString();
const item = (name: string, time: number): Item => ({ id: newId(), name, created_at: at(time) });

type Query = Readonly<Record<string, string>>;

function page(items: readonly Item[], query: Query) {
  const headers: Record<string, string> = {};
  const reply = {
    header(name: string, value: unknown) {
      headers[name] = String(value);
    },
  };
  const url = `/list?${new URLSearchParams(query)}`;
  const found = list.read({ query, url }, reply as never, new CreationOrder(items));
  const next = /cursor=([^&>]+)/.exec(headers.link ?? '')?.[1];
  return { found, next, count: headers['x-total-count'] };
}

function readAll(
  items: readonly Item[],
  query: Query,
  between: (page: number) => readonly Item[] = () => items,
) {
  const [seen, sizes]: [string[], number[]] = [[], []];
  for (let [number, cursor] = [0, undefined as string | undefined]; ; number++) {
    const { found, next } = page(between(number), cursor === undefined ? query : { ...query, cursor });
    seen.push(...found.map(({ id }) => id));
    sizes.push(found.length);
    if (next === undefined) return { seen, sizes };
    cursor = next;
  }
}

describe('a list of the catalog', () => {
  it('an order by name, in which an item was renamed meanwhile, shows each of the others once', () => {
    const items = ['a', 'b', 'c', 'd'].map((name, n) => item(name, n));
    const renamed = items.map((one) => (one.name === 'b' ? { ...one, name: 'z' } : one));
    const { seen } = readAll(items, { limit: '2', sort: 'name' }, (number) =>
      number === 0 ? items : renamed,
    );
    expect(seen).toEqual([...items, items[1]].map((one) => one?.id));
  });

  it('that finds little among very many ends early, leads on and comes to an end', () => {
    const items = Array.from({ length: 45_000 }, (_, n) => item(n === 0 ? 'wanted' : 'other', n));
    const { seen, sizes } = readAll(items, { name: 'wanted', limit: '10' });
    expect(seen).toEqual([items[0]?.id]);
    expect(sizes).toEqual([0, 0, 1]);
  });

  it('counts exactly, and states where it stopped counting', () => {
    const items = Array.from({ length: 100_001 }, (_, n) => item(n % 2 === 0 ? 'even' : 'odd', n));
    expect(page(items, { count: 'true', limit: '1' }).count).toBe('100001');
    expect(page(items.slice(1), { count: 'true', q: 'EVEN', limit: '1' }).count).toBe('50000');
    expect(page(items, { count: 'true', q: 'even', limit: '1' }).count).toBe('50000+');
    expect(page(items, { limit: '1' }).count).toBeUndefined();
  });
});

it('a cursor of the default order has the form that earlier releases take', () => {
  const place = { key: '2026-03-01T09:30:00.000Z', id: newId() };
  const cursor = encodePosition(place, NEWEST_FIRST);
  expect(Buffer.from(cursor, 'base64url').toString()).toBe(`${place.key} ${place.id}`);
});
