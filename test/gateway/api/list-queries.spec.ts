import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway({
  env: { TRIBUTARY_CHANGE_RATE: '100000', TRIBUTARY_CHANGE_RATE_PER_ACCOUNT: '100000' },
});

type Item = Readonly<Record<string, unknown>> & { readonly id: string };

/** All items of a list, and the count that it states. */
async function readAll(client: Client, path: string, query: Readonly<Record<string, string>>) {
  const list = `${path}?${new URLSearchParams({ ...query, count: 'true' })}`;
  const count = (await client.call('GET', list)).headers['x-total-count'];
  return { items: (await client.allPages<Item>(list)).flat(), count };
}

const text = (item: Item, field: string) => {
  const value = String(item[field] ?? '');
  return field === 'name' ? value.toLowerCase() : value;
};

/** The order that a list has to have, computed from whole items. */
function inOrder(items: readonly Item[], sort: string): readonly Item[] {
  const descending = sort.startsWith('-');
  const field = descending ? sort.slice(1) : sort;
  const ascending = items.toSorted((a, b) => {
    const [x, y] = [text(a, field), text(b, field)];
    return x === y ? (a.id < b.id ? -1 : 1) : x < y ? -1 : 1;
  });
  return descending ? ascending.toReversed() : ascending;
}

const NAMES = ['checkout', 'Checkout EU', 'émile', 'billing', 'Billing (old)', 'z', 'A'];

describe('the list of', () => {
  let owner: Client;
  beforeEach(async () => {
    owner = await test.openWorkspace(`${randomUUID()}@example.com`);
  });

  /** The lists, how an item is created with a name, and the filters with the field that each selects by. */
  const lists: readonly {
    readonly path: string;
    make(name: string, n: number): Promise<unknown>;
    readonly filters: Readonly<Record<string, (item: Item) => string>>;
  }[] = [
    {
      path: './sources',
      make: (name, n) => owner.ok('POST', './sources', { name, type: n % 2 === 0 ? 'web' : 'ios' }),
      filters: { type: (item) => String(item.type), created_by: (item) => String(item.created_by) },
    },
    {
      path: './api-keys',
      async make(name, n) {
        const role = n % 2 === 0 ? 'viewer' : 'editor';
        const { id } = await owner.ok<Item>('POST', './api-keys', { name, role });
        if (n % 3 === 0) await owner.ok('DELETE', `./api-keys/${id}`);
      },
      filters: { role: (item) => String(item.role), status: (item) => String(item.status) },
    },
    {
      path: './event-keys',
      make: (name, n) =>
        owner.ok('POST', './event-keys', { name, environment: n % 2 === 0 ? 'production' : 'development' }),
      filters: { environment: (item) => String(item.environment), status: (item) => String(item.status) },
    },
    {
      path: './event-contracts',
      make: (name, n) =>
        owner.ok('POST', './event-contracts', {
          name,
          event_type: n % 2 === 0 ? 'track' : 'page',
          event_name: `Event ${n}`,
          enforcement_mode: n % 3 === 0 ? 'block' : 'warn',
          schema_definition: { properties: {} },
        }),
      filters: {
        event_type: (item) => String(item.event_type),
        event_name: (item) => String(item.event_name),
        enforcement_mode: (item) => String(item.enforcement_mode),
      },
    },
    {
      path: './destinations',
      make: (name, n) =>
        owner.ok('POST', './destinations', {
          name,
          type: 'ndjson',
          settings: { folder: `out-${n}` },
          enabled: n % 2 === 0,
          paused: n % 3 === 0,
        }),
      filters: {
        type: (item) => String(item.type),
        enabled: (item) => String(item.enabled),
        paused: (item) => String(item.paused),
      },
    },
  ];

  it.each(lists.map(({ path }) => path))(
    '%s is filtered, sorted, counted and paged like a model',
    async (path) => {
      const list = lists.find((one) => one.path === path);
      if (list === undefined) throw new Error(path);
      for (const [n, name] of [...NAMES, ...NAMES].entries()) {
        await list.make(name, n);
        test.clock.pass(n % 3); // some share their time of creation
      }
      const all = await owner.ok<Item[]>('GET', path);
      const values = (name: string) =>
        fc.constantFrom(...new Set(all.map((item) => list.filters[name]?.(item) ?? '')));
      const filters = Object.fromEntries(
        Object.keys(list.filters).map((name) => [name, fc.option(values(name), { nil: undefined, freq: 2 })]),
      );
      const query = fc.record({
        q: fc.option(fc.constantFrom('check', 'BILLING', 'É', '(old)', 'nothing'), { nil: undefined }),
        sort: fc.option(
          fc.constantFrom('name', '-name', 'created_at', '-created_at', 'updated_at', '-updated_at'),
          {
            nil: undefined,
          },
        ),
        limit: fc.integer({ min: 1, max: 6 }),
        ids: fc.option(
          fc.subarray(
            all.map(({ id }) => id),
            { minLength: 1 },
          ),
          { nil: undefined },
        ),
        filters: fc.record(filters),
      });
      await fc.assert(
        fc.asyncProperty(query, async ({ q, sort, limit, ids, filters: chosen }) => {
          const stated = Object.entries(chosen).flatMap(([name, value]) =>
            value === undefined ? [] : [[name, String(value)] as const],
          );
          const expected = inOrder(
            all.filter(
              (item) =>
                (q === undefined ||
                  `${item.name}\n${item.event_name ?? ''}`.toLowerCase().includes(q.toLowerCase())) &&
                (ids === undefined || ids.includes(item.id)) &&
                stated.every(([name, value]) => list.filters[name]?.(item) === value),
            ),
            sort ?? '-created_at',
          );
          const found = await readAll(owner, path, {
            limit: String(limit),
            ...(q === undefined ? {} : { q }),
            ...(sort === undefined ? {} : { sort }),
            ...(ids === undefined ? {} : { ids: ids.join(',') }),
            ...Object.fromEntries(stated),
          });
          expect(found.items.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
          expect(found.count).toBe(String(expected.length));
        }),
        { numRuns: 40 },
      );
    },
  );

  it('rules is filtered by the type, name and environment of matching events', async () => {
    const { id: destination_id } = await owner.destination();
    const make = (name: string, fields: object) =>
      owner.ok<Item>('POST', './event-forwarding-rules', { name, destination_id, ...fields });
    await make('all', {});
    await make('orders', { event_types: ['track'], event_names: ['Order Placed'] });
    await make('people', { event_types: ['identify'], environments: ['development'], enabled: false });
    const names = async (query: string) =>
      (await owner.ok<Item[]>('GET', `./event-forwarding-rules?sort=name&${query}`)).map(({ name }) => name);
    expect(await names('')).toEqual(['all', 'orders', 'people']);
    expect(await names('event_type=track')).toEqual(['all', 'orders']);
    expect(await names('event_type=track&event_name=Other')).toEqual(['all']);
    expect(await names('environment=development')).toEqual(['people']);
    expect(await names('enabled=false')).toEqual(['people']);
    expect(await names(`destination_id=${destination_id.toUpperCase()}`)).toHaveLength(3);
    expect(await names(`destination_id=${randomUUID()}`)).toEqual([]);
  });

  it('members is searched by e-mail address, and filtered by role and status', async () => {
    const add = (email: string, role: string) => owner.ok('POST', './members', { email, role });
    await add('Ada@example.com', 'viewer');
    await add('grace@example.org', 'editor');
    const emails = async (query: string) =>
      (await owner.ok<Item[]>('GET', `./members?${query}`)).map(({ email }) => email);
    expect(await emails('q=ADA')).toEqual(['ada@example.com']);
    expect(await emails('role=editor')).toEqual(['grace@example.org']);
    expect(await emails('status=pending&sort=created_at')).toEqual(['ada@example.com', 'grace@example.org']);
  });

  it('workspaces and organizations is searched by name, over all to which the account belongs', async () => {
    const one = await owner.ok<Item>('POST', '/workspaces', { name: 'Café Nord' });
    await owner.ok('POST', '/workspaces', { name: 'Café Süd', organization_id: one.organization_id });
    const names = async (path: string) => (await owner.ok<Item[]>('GET', path)).map(({ name }) => name);
    expect(await names('/workspaces?q=CAF%C3%89&sort=-name')).toEqual(['Café Süd', 'Café Nord']);
    expect(await names(`/workspaces?organization_id=${one.organization_id}&sort=name`)).toEqual([
      'Café Nord',
      'Café Süd',
    ]);
    expect(await names('/organizations?q=nord')).toEqual(['Café Nord']);
    expect((await owner.call('GET', '/workspaces?count=true&limit=1')).headers['x-total-count']).toBe('3');
  });

  it('in one order refuses the cursor of another order', async () => {
    for (const name of NAMES) await owner.ok('POST', './sources', { name, type: 'web' });
    const first = await owner.call('GET', './sources?limit=2&sort=name');
    const cursor = new URL(
      String(/<([^>]+)>/.exec(String(first.headers.link))?.[1]),
      'http://x',
    ).searchParams.get('cursor');
    for (const sort of ['-name', 'updated_at', '-created_at'])
      expect((await owner.call('GET', `./sources?limit=2&sort=${sort}&cursor=${cursor}`)).status).toBe(400);
    expect((await owner.call('GET', `./sources?limit=2&cursor=${cursor}`)).status).toBe(400);
    expect((await owner.call('GET', `./sources?limit=2&sort=name&cursor=${cursor}`)).status).toBe(200);
  });
});
