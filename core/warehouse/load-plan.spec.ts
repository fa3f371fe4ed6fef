import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Contract } from '../catalog/entities.ts';
import { type CanonicalEvent, isObject, type Json, type JsonObject } from '../event/event.ts';
import { contractTypes } from './contract-types.ts';
import { LAYOUTS } from './layout.ts';
import { LoadDraft } from './load-draft.ts';
import { LIMITS, ModelWarehouse, planLoad, type Row, track } from './model-warehouse.fixture.ts';
import { decimalOf } from './types.ts';

const contract = (properties: JsonObject, event_name = 'Order') =>
  ({
    event_type: 'track',
    event_name,
    status: 'active',
    schema_definition: { type: 'object', properties },
  }) as Pick<Contract, 'event_type' | 'event_name' | 'status' | 'schema_definition'> as Contract;

describe('a row', () => {
  it('has the fields of its event, its context and its properties', () => {
    const warehouse = new ModelWarehouse();
    warehouse.load([
      track(
        'Order Completed',
        {
          orderId: 'o-1',
          total: { amount: 10.5, tax: { rate: 0.2, parts: { a: 1 } } },
          items: [{ sku: 'x' }],
          none: null,
          empty: {},
        },
        {
          message_id: 'm',
          anonymous_id: 'a',
          source_id: 's',
          context: {
            page: { url: 'https://x' },
            segment: { sentAt: '2024-02-29T12:00:05Z', timestamp: '2024-02-29T13:00:00+01:00' },
          },
        },
      ),
    ]);
    const common = {
      id: 'm',
      anonymous_id: 'a',
      user_id: 'ann',
      received_at: '2024-02-29T12:00:01.000Z',
      sent_at: '2024-02-29T12:00:05.000Z',
      original_timestamp: '2024-02-29T12:00:00.000Z',
      timestamp: '2024-02-29T12:00:00.000Z',
      environment: 'production',
      source_id: 's',
      uuid_ts: '2024-03-01T00:00:00.000Z',
      loaded_at: '2024-03-01T00:00:00.000Z',
      event: 'order_completed',
      event_text: 'Order Completed',
      context_page_url: 'https://x',
      context_segment_sent_at: '2024-02-29T12:00:05Z',
      context_segment_timestamp: '2024-02-29T13:00:00+01:00',
    };
    expect(warehouse.rows('tracks')).toEqual([common]);
    expect(warehouse.rows('order_completed')).toEqual([
      {
        ...common,
        order_id: 'o-1',
        total_amount: '10.5',
        total_tax_rate: '0.2',
        total_tax_parts: '{"a":1}',
        items: '[{"sku":"x"}]',
      },
    ]);
  });

  it('of other types of events is in the table of the type', () => {
    const warehouse = new ModelWarehouse();
    const of = (more: Partial<CanonicalEvent>) => {
      const { event: _, properties: __, ...event } = track('', {});
      return { ...event, ...more } as CanonicalEvent;
    };
    warehouse.load([
      of({ type: 'page', name: 'Home', category: 'c', properties: { name: 'own', path: '/' } }),
      of({ type: 'screen', name: 'Start' }),
      of({ type: 'identify', traits: { name: 'Ann', createdAt: 'x' } }),
      of({ type: 'group', group_id: 'g', traits: { name: 'ACME' } }),
      of({ type: 'alias', previous_id: 'p' }),
    ]);
    expect(warehouse.rows('pages')[0]).toMatchObject({
      name: 'Home',
      category: 'c',
      _name: 'own',
      path: '/',
    });
    expect(warehouse.rows('screens')[0]).toMatchObject({ name: 'Start' });
    expect(warehouse.rows('identifies')[0]).toMatchObject({ name: 'Ann', created_at: 'x' });
    expect(warehouse.rows('groups')[0]).toMatchObject({ group_id: 'g', name: 'ACME' });
    expect(warehouse.rows('aliases')[0]).toMatchObject({ previous_id: 'p' });
  });

  it('report 19: of an event without an id and times is named by its position in the log', () => {
    const warehouse = new ModelWarehouse();
    const { message_id: _, received_at: __, timestamp: ___, ...event } = track('Order', { id: { a: '\0' } });
    warehouse.load([event as CanonicalEvent]);
    expect(warehouse.rows('order')[0]).toMatchObject({ id: 'events.accepted/0/0', id_a: '\ufffd' });
    expect(warehouse.rows('discards')).toEqual([
      expect.objectContaining({ position: 'events.accepted/0/0', received_at: null, value: '"\\u0000"' }),
    ]);
  });

  it('of a development event has another id than that of a production event with the same message id', () => {
    const warehouse = new ModelWarehouse();
    warehouse.load([
      track('Order', {}, { message_id: 'm' }),
      track('Order', {}, { message_id: 'm', environment: 'development' }),
    ]);
    expect(warehouse.rows('order').map(({ id }) => id)).toEqual(['m', 'development:m']);
  });

  it('keeps what is finer than a microsecond, and no time, beside its columns', () => {
    const warehouse = new ModelWarehouse();
    warehouse.load([
      track('Order', {}, { timestamp: '2024-02-29T12:00:00.123456789Z' }),
      track('Order', {}, { timestamp: 'never' }),
    ]);
    expect(warehouse.rows('order')).toMatchObject([
      { timestamp: '2024-02-29T12:00:00.123456Z', _unmapped: null },
      { timestamp: null, _unmapped: '{"timestamp":"never"}' },
    ]);
    expect(warehouse.rows('discards').map(({ value }) => value)).toEqual(
      expect.arrayContaining(['"2024-02-29T12:00:00.123456789Z"', '"never"']),
    );
  });
});

describe('several spellings of one column', () => {
  it.each([
    [{ userid: 1, USERID: 2, UserID: 3 }, 'userid', '1', { USERID: 2 }],
    [{ orderId: 1, 'Order-Id': 2 }, 'order_id', '2', { orderId: 1 }],
    [{ a: { b: 1 }, a_b: 2 }, 'a_b', '2', { a: { b: 1 } }],
    [{ id: 1, _id: 2 }, '_id', '2', { id: 1 }],
    [{ 'a.b': 1, a: { b: 2 } }, 'a_b', '1', { a: { b: 2 } }],
  ])(
    'report 30: of %j the column %s has %s, and the row keeps the others',
    (properties, column, value, others) => {
      const warehouse = new ModelWarehouse();
      const plan = warehouse.load([track('Order', properties)]);
      const [row] = warehouse.rows('order');
      expect(row?.[column]).toBe(value);
      expect(JSON.parse(String(row?._unmapped))).toEqual({ properties: others });
      expect(plan.discards).toEqual({ order: 1 });
      expect(warehouse.rows('discards')[0]).toMatchObject({
        table_name: 'order',
        column_name: column,
        reason: expect.stringMatching(/^same column as properties\./),
      });
    },
  );

  it('report 29: names that fold to one table share it, with the text as it was sent', () => {
    const warehouse = new ModelWarehouse();
    warehouse.load(['Order Completed', 'order_completed', 'OrderCompleted'].map((name) => track(name, {})));
    expect(warehouse.rows('order_completed').map(({ event_text }) => event_text)).toEqual([
      'Order Completed',
      'order_completed',
      'OrderCompleted',
    ]);
  });
});

describe('a column', () => {
  it('report 7: is none for an empty object, and never turns from its members into a text', () => {
    const warehouse = new ModelWarehouse();
    for (const a of [{}, { b: 1 }, 'x']) warehouse.load([track('Order', { a })]);
    expect(warehouse.rows('order')).toMatchObject([{}, { a_b: '1' }, { a: 'x' }]);
    expect(warehouse.columns.get('order')?.get('a_b')).toBe('bigint');
    expect(warehouse.rows('discards')).toEqual([]);
  });

  it('report 8: is widened by one odd value, and loading goes on', () => {
    const warehouse = new ModelWarehouse();
    warehouse.load(Array.from({ length: 1_000 }, (_, code) => track('Order', { code })));
    warehouse.load([track('Order', { code: 'A-1' })]);
    expect(warehouse.columns.get('order')?.get('code')).toBe('text');
    expect(warehouse.rows('order').map(({ code }) => code)).toEqual(
      [...Array(1_000).keys(), 'A-1'].map(String),
    );
  });

  it('has the type of the contract in force, whatever the values; numbers widen it', () => {
    const contracts = contractTypes(
      [
        contract({
          count: { type: ['integer', 'null'] },
          at: { type: 'string', format: 'date-time' },
          code: { type: 'string' },
          tags: { type: 'array' },
          any: {},
          deep: { type: 'object', properties: { n: { type: 'number' } } },
        }),
      ],
      63,
    );
    const warehouse = new ModelWarehouse({ contracts });
    const odd = track('Order', {
      count: 'many',
      at: 'never',
      code: '2024-02-29T12:00:00.000Z',
      tags: 'x',
      any: true,
      deep: { n: 1 },
    });
    warehouse.load([odd, track('Order', { count: 1.5, at: '2024-02-29T12:00:00+05:30', code: 7 })]);
    expect(Object.fromEntries(warehouse.columns.get('order') ?? [])).toMatchObject({
      count: 'numeric',
      at: 'timestamp',
      code: 'text',
      tags: 'json',
      any: 'boolean',
      deep_n: 'numeric',
    });
    expect(warehouse.rows('order')).toMatchObject([
      { count: null, at: null, tags: '"x"', code: '2024-02-29T12:00:00.000Z' },
      { count: '1.5', at: '2024-02-29T06:30:00.000Z', code: '7' },
    ]);
    expect(JSON.parse(String(warehouse.rows('order')[0]?._unmapped))).toEqual({
      properties: { count: 'many', at: 'never' },
    });
    expect(warehouse.schema.get('order')?.columns.count).toMatchObject({
      type: 'numeric',
      origin: 'contract',
      path: 'properties.count',
    });
  });

  it('report 16: keeps the type that the warehouse has, where a load ended before its ledger was stored', () => {
    const warehouse = new ModelWarehouse();
    warehouse.load([track('Order', { n: 1 })]);
    warehouse.columns.get('order')?.set('n', 'numeric');
    expect(warehouse.load([track('Order', { n: 2 })]).drifts).toEqual([]);
    warehouse.load([track('Order', { n: 'x' })]);
    expect(warehouse.columns.get('order')?.get('n')).toBe('text');
  });

  it('report 14: that was retyped by hand gets what it holds exactly', () => {
    const warehouse = new ModelWarehouse();
    warehouse.load([track('Order', { n: 'x' })]);
    warehouse.columns.get('order')?.set('n', 'bigint');
    const { drifts } = warehouse.load([
      track('Order', { n: 5 }),
      track('Order', { n: '5' }),
      track('Order', { n: 5.5 }),
    ]);
    expect(drifts).toEqual([
      { table: 'order', column: 'n', kind: 'retyped', expected: 'text', found: 'bigint' },
    ]);
    expect(
      warehouse
        .rows('order')
        .slice(1)
        .map(({ n }) => n),
    ).toEqual(['5', null, null]);
    expect(warehouse.rows('discards').map(({ value }) => value)).toEqual(['"5"', '5.5']);
  });

  it('beyond those of a table, and a value beyond those of a row, are in `_unmapped`, counted by few discards', () => {
    const warehouse = new ModelWarehouse({ limits: { ...LIMITS, columns: 30, rowValues: 25 } });
    const many = (prefix: string, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`${prefix}${at}`, at]));
    warehouse.load([track('Order', many('a', 10))]);
    warehouse.load([track('Order', many('b', 200))]);
    warehouse.load([track('Order', { ...many('a', 10), x: 1 })]);
    expect(warehouse.columns.get('order')?.size).toBe(30);
    const [, second, third] = warehouse.rows('order');
    const kept = Object.keys(second ?? {}).filter(
      (column) => /^b\d/.test(column) && second?.[column] !== null,
    );
    expect(kept.length + Object.keys(JSON.parse(String(second?._unmapped)).properties).length).toBe(200);
    expect(third).toMatchObject(
      Object.fromEntries(Object.entries(many('a', 10)).map(([name, at]) => [name, String(at)])),
    );
    expect(warehouse.rows('discards').length).toBeLessThanOrEqual(33);
  });
});

it('beyond the bound on tables, events of further names are in tracks with their properties', () => {
  const warehouse = new ModelWarehouse();
  warehouse.load([track('One', { n: 1 })], { maxEventTables: 1 });
  warehouse.load([track('Two', { n: 2 }), track('One', { n: 3 })], { maxEventTables: 1 });
  expect([...warehouse.columns.keys()].sort()).toEqual(['discards', 'one', 'tracks']);
  expect(warehouse.rows('tracks').map(({ properties = null }) => properties)).toEqual([
    null,
    '{"n":2}',
    null,
  ]);
});

it('report 28: characters that no warehouse holds cost no event, and are told exactly', () => {
  const warehouse = new ModelWarehouse();
  warehouse.load([
    track('a\0b', { v: 'x\0', 'k\0': '\ud800', list: ['\0'] }, { user_id: 'u\0', message_id: 'm\0' }),
    track('a b', {}, { message_id: 'm\ufffd' }),
  ]);
  const [row] = warehouse.rows('a_b');
  expect(row).toMatchObject({
    v: 'x\ufffd',
    k: '\ufffd',
    list: '["\\u0000"]',
    user_id: 'u\ufffd',
    event_text: 'a\ufffdb',
  });
  expect(new Set(warehouse.rows('a_b').map(({ id }) => id)).size).toBe(2);
  const told = warehouse.rows('discards').filter(({ table_name }) => table_name === 'a_b');
  expect(told.map(({ value }) => JSON.parse(String(value))).sort()).toEqual(
    ['a\0b', 'u\0', 'x\0', '\ud800'].sort(),
  );
});

it('report 9: a text that is longer than a text of the engine is in parts in discards', () => {
  const warehouse = new ModelWarehouse({ limits: { ...LIMITS, textBytes: 100 } });
  const long = `${'ä😀'.repeat(40)}!`;
  const plan = warehouse.load([track('Order', { long })]);
  expect(warehouse.rows('order')[0]).toMatchObject({ _unmapped: null });
  const parts = warehouse.rows('discards');
  expect(JSON.parse(parts.map(({ value }) => value).join(''))).toBe(long);
  expect(parts.every(({ value }) => Buffer.byteLength(String(value)) <= 100)).toBe(true);
  expect(new Set(parts.map(({ id }) => id)).size).toBe(parts.length);
  expect(parts[1]?.reason).toBe(`the column is of type text (part 2 of ${parts.length})`);
  expect(plan.discards).toEqual({ order: 1 });
});

it('JSON that an engine does not parse exactly is beside its column', () => {
  const warehouse = new ModelWarehouse({ limits: { ...LIMITS, parsesJson: true } });
  const digits = `1${'0'.repeat(38)}`;
  const lists = [
    ['a', { k: 1.5 }],
    ['\0'],
    ['\ud800'],
    [{ 'k\0': 1 }],
    [JSON.rawJSON(digits) as never],
    [1e300],
  ];
  warehouse.load(lists.map((list) => track('Order', { list })));
  expect(warehouse.rows('order').map(({ list }) => list)).toEqual([
    '["a",{"k":1.5}]',
    null,
    null,
    null,
    null,
    null,
  ]);
  expect(warehouse.rows('discards').map(({ value }) => value)).toEqual([
    '["\\u0000"]',
    '["\\ud800"]',
    '[{"k\\u0000":1}]',
    `[${digits}]`,
    '[1e+300]',
  ]);
});

it('a dropped event and a refused row are discarded whole', () => {
  const draft = new LoadDraft({ limits: LIMITS, schema: new Map(), maxEventTables: 5 });
  draft.addEvent(track('Order', { n: 1, N: 2 }, { message_id: 'refused' }), 'events.accepted/0/0');
  draft.dropEvent(
    track('Order', { n: 3 }, { message_id: 'dropped' }),
    'events.accepted/0/1',
    'the transformation failed',
  );
  const plan = planLoad(draft, {
    limits: LIMITS,
    schema: new Map(),
    contracts: new Map(),
    described: new Map(),
    held: [],
    loadedAt: '2024-03-01T00:00:00.000Z',
  });
  const rowsOf = (table: (typeof plan.inserts)[number] | undefined) =>
    [...(table?.rows ?? [])].map((row) =>
      Object.fromEntries([...(table?.columns.keys() ?? [])].map((name, at) => [name, row[at]])),
    );
  const dropped = rowsOf(plan.inserts.find(({ table }) => table === 'discards')).find(
    ({ message_id }) => message_id === 'dropped',
  );
  expect(dropped).toMatchObject({ table_name: null, column_name: null, reason: 'the transformation failed' });
  expect(JSON.parse(String(dropped?.value))).toMatchObject({ message_id: 'dropped', properties: { n: 3 } });
  const [refused] = rowsOf(plan.discardsOf([{ table: 'order', row: 0, reason: 'no' }]));
  expect(refused).toMatchObject({
    message_id: 'refused',
    table_name: 'order',
    column_name: null,
    reason: 'no',
  });
  expect(JSON.parse(String(refused?.value))).toMatchObject({
    id: 'refused',
    n: 1,
    _unmapped: { properties: { N: 2 } },
  });
});

/** Names that often meet in one column. */
const names = fc.oneof(
  fc.constantFrom(...'id a A a_b a.b b userId user_id ä __proto__ k\0'.split(' '), 'User Id', ''),
  fc.string({ maxLength: 4 }),
);
const scalars = fc.oneof(
  fc.boolean(),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.bigInt({ min: -(10n ** 22n), max: 10n ** 22n }).map((n) => JSON.rawJSON(String(n)) as unknown as Json),
  fc.string({ unit: 'binary', maxLength: 5 }),
  fc.constantFrom('2024-02-29T12:00:00.000Z', 'N/A', '5', '\0', '\ud800'),
  fc.constant(null),
);
const values: fc.Arbitrary<Json> = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalars as fc.Arbitrary<Json>,
    fc.array(tie('value'), { maxLength: 2 }) as fc.Arbitrary<Json>,
    fc.dictionary(names, tie('value'), { maxKeys: 3 }) as fc.Arbitrary<Json>,
  ),
})).value;
const properties = fc.dictionary(names, values, { maxKeys: 6 }) as fc.Arbitrary<JsonObject>;

/** The values that a row owes: those of objects up to three levels, without `null` and empty objects. */
function owed(
  object: JsonObject,
  path: readonly string[] = [],
): readonly (readonly [readonly string[], Json])[] {
  return Object.entries(object).flatMap(([name, value]) => {
    const at = [...path, name];
    if (value === null || (isObject(value) && Object.keys(value).length === 0)) return [];
    return isObject(value) && at.length < 3 ? owed(value, at) : [[at, value] as const];
  });
}

const sameText = (value: Json) =>
  typeof value === 'string'
    ? value
    : typeof value === 'number' || JSON.isRawJSON(value)
      ? decimalOf(JSON.stringify(value))
      : JSON.stringify(value);

it('each value of an event is found again exactly: in its column, in `_unmapped`, or in discards', () => {
  fc.assert(
    fc.property(fc.array(properties, { minLength: 1, maxLength: 4 }), fc.boolean(), (all, isBounded) => {
      const limits = isBounded ? { ...LIMITS, columns: 24, rowValues: 12 } : LIMITS;
      const warehouse = new ModelWarehouse({ limits });
      const events = all.map((own) => track('Order', own));
      for (const event of events) warehouse.load([event]);
      for (const event of events) {
        const row = warehouse.rows('order').find(({ id }) => id === event.message_id);
        const discards = warehouse
          .rows('discards')
          .filter(({ message_id }) => message_id === event.message_id);
        const unmapped = JSON.parse(String(row?._unmapped ?? '{}'));
        for (const [path, value] of owed(event.properties ?? {})) {
          const column = LAYOUTS.event.column(path, limits.nameLength);
          const inUnmapped = path.reduce(
            (tree, name) => (Object.hasOwn(tree ?? {}, name) ? tree[name] : undefined),
            unmapped.properties,
          );
          const isFound =
            String(row?.[column]) === sameText(value) ||
            (inUnmapped !== undefined &&
              JSON.stringify(inUnmapped) === JSON.stringify(JSON.parse(JSON.stringify(value)))) ||
            discards.some((one) => one.column_name === column && one.value === JSON.stringify(value));
          expect({ path, column, isFound }).toEqual({ path, column, isFound: true });
        }
      }
    }),
  );
});

it('the order of batches changes no value', () => {
  const sorted = (rows: readonly Row[]) =>
    [...rows]
      .map((row) =>
        Object.fromEntries(
          Object.entries(row)
            .filter(([name, value]) => value !== null && name !== 'position')
            .sort(),
        ),
      )
      .sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  fc.assert(
    fc.property(
      fc.array(properties, { minLength: 2, maxLength: 6 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 3 })),
      (all, sizes) => {
        const events = all.map((own) => track('Order', own));
        const [forth, back] = [new ModelWarehouse(), new ModelWarehouse()];
        forth.load(events);
        const rest = [...events].reverse();
        while (rest.length > 0) back.load(rest.splice(0, sizes.next().value ?? 1));
        expect(back.columns.get('order')).toEqual(forth.columns.get('order'));
        expect(sorted(back.rows('order'))).toEqual(sorted(forth.rows('order')));
      },
    ),
  );
});
