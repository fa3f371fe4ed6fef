import { describe, expect, it } from 'vitest';
import type { CanonicalEvent, JsonObject } from '../event/event.ts';
import { faultOfFilter, filterVerdict, MAX_FILTER_LENGTH } from './filter.ts';

const AT = '2026-01-01T00:00:00.000Z';

function event(properties: JsonObject): CanonicalEvent {
  return {
    message_id: 'm',
    type: 'track',
    event: 'Paid',
    user_id: 'u1',
    properties,
    timestamp: AT,
    received_at: AT,
    environment: 'production',
    workspace_id: 'w',
  };
}

const PAID = event({ total: 120, ok: true, note: null, tags: ['a', 'b'], items: [{ sku: 'x', price: 9.5 }] });

describe('filterVerdict', () => {
  it.each([
    'event.properties.total > 100',
    'event.properties.total == 120 && event.event == "Paid"',
    'event.properties.ok',
    'event.properties.note == null',
    '"a" in event.properties.tags',
    'event.properties.items.exists(item, item.price > 9 && item.sku == "x")',
    'event.properties.tags.all(tag, tag.size() == 1)',
    '!has(event.properties.coupon) || event.properties.coupon == "SPRING"',
    'event.user_id.startsWith("u") ? true : false',
    'timestamp(event.timestamp) < timestamp("2026-06-01T00:00:00Z")',
    'event.properties["total"] in [120, 130]',
    'event.properties.total + 1.0 + event.properties.total > 240.0',
    'timestamp(event.timestamp) + duration("1h") > timestamp(event.timestamp)',
    'event.properties.tags.size() + event.properties.items.size() == 3',
    '("b" in event.properties.tags ? event.properties.tags : []).exists(tag, tag == "a")',
  ])('%s is passed', (filter) => {
    expect([faultOfFilter(filter), filterVerdict(filter, PAID)]).toEqual([undefined, 'matched']);
  });

  it('says no, and says why where it can say neither', () => {
    expect(filterVerdict('event.properties.total > 200', PAID)).toBe('not matched');
    expect(filterVerdict('event.properties.nothing == 1', PAID)).toEqual({ failed: 'No such key: nothing' });
    expect(filterVerdict('event.properties.total', PAID)).toEqual({
      failed: 'it gives neither true nor false',
    });
    expect(filterVerdict('event.properties.tags > 1', PAID)).toHaveProperty('failed');
  });

  it('what an object inherits is none of the event’s fields', () => {
    for (const name of ['constructor', 'toString', 'hasOwnProperty'])
      expect(filterVerdict(`event.${name} == 1`, PAID)).toEqual({ failed: `No such key: ${name}` });
  });
});

describe('faultOfFilter', () => {
  it.each([
    ['', /./],
    ['event.', /./],
    ['event.properties.total >', /./],
    ['total > 1', /Unknown variable: total/],
    ['1 + 1', /gives int/],
    ['event.user_id.matches("^(a+)+$")', /matches is not to be had/],
    ['event.a.contains(event.b)', /must spell out/],
    ['event.a.exists(x, event.b.exists(y, x == y))', /event in each round/],
    ['event.a.exists(x, x.exists(y, y == 1))', /a loop in a loop/],
    ['event.a.exists(x, x in event.b)', /event in each round/],
    ['event.a.map(x, x) == []', /map is not to be had/],
    ['event.a.split("").join(event.b) == ""', /is not to be had/],
    [`(${Array(60).fill('event.l').join('+')}).size() == 1`, /\+ adds numbers/],
    ['event.a.exists(x, x + x == x)', /\+ adds numbers/],
    ['"a" + event.b == "ab"', /\+ adds numbers/],
    [`[event.a, event.b].exists(x, x.contains("a"))`, /a list that it makes of the event/],
    [Array(5).fill('event.a.exists(x, x > 1)').join(' || '), /more than 4 loops/],
    ['few(event.a) == 1', /few/],
    ['cel.bind(x, event.a + event.a, x == x)', /./],
    [`"${'x'.repeat(MAX_FILTER_LENGTH)}" == event.user_id`, /more than 1000 characters/],
    [`${'!'.repeat(200)}event.ok`, /./],
  ])('%s', (filter, fault) => {
    expect(faultOfFilter(filter)).toMatch(fault);
  });

  it('what is left takes time linear in the event: the largest one does not hold up a stage', () => {
    const large = event({ text: 'a'.repeat(15_000), list: Array.from({ length: 1_000 }, (_, i) => i) });
    const needle = `${'a'.repeat(150)}b`;
    const search = `event.properties.text.contains("${needle}")`;
    const loop = 'event.properties.list.exists(x, x == -1)';
    const filter = [search, search, loop, loop].join(' || ');
    expect(faultOfFilter(filter)).toBeUndefined();
    const start = performance.now();
    for (let i = 0; i < 10; i++) expect(filterVerdict(filter, large)).toBe('not matched');
    expect((performance.now() - start) / 10).toBeLessThan(50);
  });

  it('a loop whose every round fails costs little more, and one over very many items is refused', () => {
    const loops = Array(4).fill('event.properties.list.exists(x, x.none > "")').join(' || ');
    expect(faultOfFilter(loops)).toBeUndefined();
    const many = (length: number) => event({ list: Array.from({ length }, () => 1) });
    filterVerdict(loops, many(1_000));
    const start = performance.now();
    for (let i = 0; i < 5; i++)
      expect(filterVerdict(loops, many(1_000))).toEqual({ failed: 'No such key: none' });
    expect((performance.now() - start) / 5).toBeLessThan(100);
    expect(filterVerdict(loops, many(1_001))).toEqual({ failed: 'loops over more than 1000 items' });
  });

  it('one that was taken before it was a fault is not run', () => {
    const taken = 'event.properties.tags + event.properties.tags == []';
    expect(filterVerdict(taken, PAID)).toEqual({ failed: faultOfFilter(taken) });
  });
});
