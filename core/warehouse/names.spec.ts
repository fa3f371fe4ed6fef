import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { eventTable, LAYOUTS, nameOf } from './layout.ts';

const BOUND = 63;

describe('a name of a path', () => {
  it.each([
    [['userId'], 'user_id'],
    [['USERID'], 'userid'],
    [['User-Id'], 'user_id'],
    [['HTTPServer'], 'http_server'],
    [['utm_Source 2'], 'utm_source_2'],
    [['Order Completed'], 'order_completed'],
    [['OrderCompleted'], 'order_completed'],
    [['order.completed'], 'order_completed'],
    [['a/b'], 'a_b'],
    [['a"b'], 'a_b'],
    [['Größe'], 'gro_e'],
    [['ä'], 'a'],
    [['ﬁn'], 'fin'],
    [['2nd'], '_2nd'],
    [['_id'], 'id'],
    [['a\0b'], 'a_b'],
    [['order', 'totalAmount'], 'order_total_amount'],
    [['order', '2'], 'order_2'],
  ] as const)('report 4, 29, 30: %j is %s', (path, name) => {
    expect(nameOf(path, BOUND)).toBe(name);
  });

  it('report 29: without a letter or digit is a hash, and one that is too long ends with one', () => {
    for (const text of ['', '日本', '"', '\ud800']) expect(nameOf([text], BOUND)).toMatch(/^_x[0-9a-f]{8}$/);
    expect(nameOf(['日本'], BOUND)).not.toBe(nameOf(['中国'], BOUND));
    expect(nameOf(['order', ''], BOUND)).toMatch(/^order_x[0-9a-f]{8}$/);
    const [one, other] = [nameOf(['a'.repeat(300)], BOUND), nameOf([`${'a'.repeat(299)}b`], BOUND)];
    expect(one).toMatch(/^a{54}_[0-9a-f]{8}$/);
    expect(other).not.toBe(one);
  });

  it('is always an identifier within the bound', () => {
    const paths = fc.array(fc.string({ unit: 'binary', maxLength: 80 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(paths, fc.integer({ min: 20, max: 127 }), (path, bound) => {
        const name = nameOf(path, bound);
        expect(name).toMatch(/^[a-z_][a-z0-9_]*$/);
        expect(name.length).toBeLessThanOrEqual(bound);
        expect(nameOf(path, bound)).toBe(name);
      }),
    );
  });
});

it('a property with the name of a fixed column, or of a context, has a name of its own', () => {
  const names = ['id', 'Timestamp', 'context_ip', 'contextual', 'event', 'xmin'].map((name) =>
    LAYOUTS.event.column([name], BOUND),
  );
  expect(names).toEqual(['_id', '_timestamp', '_context_ip', 'contextual', '_event', '_xmin']);
  expect(LAYOUTS.identify.column(['name'], BOUND)).toBe('name');
  expect(LAYOUTS.page.column(['name'], BOUND)).toBe('_name');
  expect(LAYOUTS.event.column([`context_${'a'.repeat(80)}`], BOUND)).toHaveLength(BOUND);
});

it('report 29: an event has a table of its own, whatever its name', () => {
  const names = ['tracks', 'Users', 'discards', '_tributary_loads', 'order.completed', 'Order Completed'];
  expect(names.map((name) => eventTable(name, BOUND))).toEqual([
    '_tracks',
    '_users',
    '_discards',
    'tributary_loads',
    'order_completed',
    'order_completed',
  ]);
});
