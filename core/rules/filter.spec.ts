import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { CanonicalEvent, JsonObject } from '../event/event.ts';
import { evaluateFilter, filterFault, MAX_FILTER_LENGTH } from './filter.ts';
import { FilterBudget, MAX_FILTER_WORK } from './filter-evaluator.ts';

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

describe('evaluateFilter', () => {
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
    expect([filterFault(filter), evaluateFilter(filter, PAID)]).toEqual([undefined, 'matched']);
  });

  it('returns no match, and the reason if the filter fails', () => {
    expect(evaluateFilter('event.properties.total > 200', PAID)).toBe('not matched');
    expect(evaluateFilter('event.properties.nothing == 1', PAID)).toEqual({ failed: 'No such key: nothing' });
    expect(evaluateFilter('event.properties.total', PAID)).toEqual({
      failed: 'it gives neither true nor false',
    });
    expect(evaluateFilter('event.properties.tags > 1', PAID)).toHaveProperty('failed');
  });

  it('inherited properties are not fields of the event', () => {
    for (const name of ['constructor', 'toString', 'hasOwnProperty'])
      expect(evaluateFilter(`event.${name} == 1`, PAID)).toEqual({ failed: `No such key: ${name}` });
  });
});

const RESERVED =
  'as break const continue else false for function if import in let loop namespace null package return true var void while';

describe('numbers of events, which are doubles, and integers of a filter', () => {
  const order = event({
    qty: 3,
    price: 2.5,
    minus: -7,
    zero: 0,
    list: [4, 5],
    lines: [{ n: 2 }],
    id: JSON.parse('7234567890123456789') as number,
    text: '8',
  });
  it.each([
    'event.properties.qty * 2 > 5',
    '2 * event.properties.qty == 6 && 7 - event.properties.qty == 4',
    'event.properties.qty + 1 - event.properties.price == 1.5',
    'event.properties.qty / 2 == 1.5 && 9 / event.properties.qty == 3',
    'event.properties.qty % 2 == 1 && event.properties.minus % 4 == -3 && 7 % event.properties.price == 2',
    'event.properties.qty * 2u == 6',
    'size(event.properties.list) * event.properties.price == 5',
    'event.properties.lines.all(line, line.n * 3 + 1 == 7)',
    'event.properties.qty in [1, 2.5, 3] && !(event.properties.price in [2, 3])',
    'event.properties.list == [4, 5] && event.properties.lines == [{"n": 2}]',
    'double(event.properties.text) * 2 == 16 && 16 != double(event.properties.text) && 2 == 2.0',
    'event.properties.id == 7234567890123456789 && event.properties.id in [7234567890123456789]',
    'event.properties.zero == 1 || event.properties.qty * 2.0 == 6',
    'int(event.properties.qty) / 2 == 1',
    ...RESERVED.split(' ').map((word) => `!has(event.properties.${word})`),
  ])('%s is passed', (filter) => {
    expect([filterFault(filter), evaluateFilter(filter, order)]).toEqual([undefined, 'matched']);
  });

  it('a field can have the name of a CEL keyword', () => {
    for (const word of RESERVED.split(' ')) {
      const one = event({ [word]: 'EU', list: [{ [word]: 1 }] });
      for (const filter of [
        `has(event.properties.${word}) && event.properties.${word} == "EU"`,
        `event.properties . ${word} in ["CH", "EU"] // event.in`,
        `event.properties.${word}.startsWith("E") && ".${word}" != event.event && r'.${word}' != "a\\".${word}"`,
        `event.properties.list.exists(x, x.${word} == 1) && event.properties.list[0].${word} == 1`,
      ])
        expect([filter, filterFault(filter), evaluateFilter(filter, one)]).toEqual([
          filter,
          undefined,
          'matched',
        ]);
    }
    expect(evaluateFilter('event.properties.in == 1', event({}))).toEqual({ failed: 'No such key: in' });
  });

  it('a number that cannot be computed is a failure with the reason', () => {
    expect(evaluateFilter('event.properties.qty % 0 == 1', order)).toEqual({ failed: 'modulo by zero' });
    expect(evaluateFilter('event.properties.text * 2 == 16', order)).toHaveProperty('failed');
  });
});

describe('an example of the guide', () => {
  const guide = readFileSync(new URL('../../docs/reference/delivery-lifecycle.md', import.meta.url), 'utf8');
  const [, block = ''] = /over `event`, the canonical[\s\S]*?```\n([\s\S]*?)```/.exec(guide) ?? [];
  const examples = block.trim().split('\n');
  const fitting = event({
    ...{ total: 150, currency: 'CHF', coupon: 'SPRING24', quantity: 4, price: 30.5 },
    items: [{ category: 'hats' }, { category: 'shoes' }],
  });
  const other = event({
    ...{ total: 99, currency: 'CHF', coupon: 'XMAS', quantity: 1, price: 30.5 },
    items: [{ category: 'hats' }],
  });

  it('is there', () => expect(examples).toHaveLength(5));

  it.each(examples)('%s', (filter) => {
    expect(filterFault(filter)).toBe(undefined);
    const late = { ...fitting, timestamp: '2026-03-01T00:00:00.000Z' };
    const early = { ...other, timestamp: '2025-12-31T23:59:59.999Z' };
    expect([evaluateFilter(filter, late), evaluateFilter(filter, early)]).toEqual(['matched', 'not matched']);
  });
});

describe('filterFault', () => {
  it.each([
    ['', /./],
    ['event.', /./],
    ['event.properties.total >', /./],
    ['total > 1', /Unknown variable: total/],
    ['1 + 1', /gives int/],
    ['event.qty * 2', /gives a number/],
    ['event.ok ? event.qty + 1 : 2', /gives a number/],
    ['event.qty * 2 && event.ok', /a number where it must say true or false/],
    ['!(event.qty - 1)', /a number where it must say true or false/],
    ['event.user_id.matches("^(a+)+$")', /matches is not available/],
    ['event.a.contains(event.b)', /must spell out/],
    ['event.a.exists(x, event.b.exists(y, x == y))', /event in each round/],
    ['event.a.exists(x, x.exists(y, y == 1))', /a loop in a loop/],
    ['event.a.exists(x, x in event.b)', /event in each round/],
    ['event.a.map(x, x) == []', /map is not available/],
    ['event.a.split("").join(event.b) == ""', /is not available/],
    [`(${Array(60).fill('event.l').join('+')}).size() == 1`, /\+ adds numbers/],
    ['event.a.exists(x, x + x == x)', /\+ adds numbers/],
    ['"a" + event.b == "ab"', /\+ adds numbers/],
    [`[event.a, event.b].exists(x, x.contains("a"))`, /a list that it makes of the event/],
    [Array(5).fill('event.a.exists(x, x > 1)').join(' || '), /more than 4 loops/],
    ['evaluator()', /evaluator/],
    ['cel.bind(x, event.a + event.a, x == x)', /./],
    [`"${'x'.repeat(MAX_FILTER_LENGTH)}" == event.user_id`, /more than 1000 characters/],
    [`${'!'.repeat(200)}event.ok`, /./],
  ])('%s', (filter, fault) => {
    expect(filterFault(filter)).toMatch(fault);
  });

  it('a filter stored before it was a fault is not run', () => {
    const taken = 'event.properties.tags + event.properties.tags == []';
    expect(evaluateFilter(taken, PAID)).toEqual({ failed: filterFault(taken) });
  });
});

describe('the work of filters', () => {
  /**
   * Processor time of one evaluation, ms: the minimum of several, because other processes share the machine.
   */
  function cost(filter: string, of: CanonicalEvent): number {
    let least = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 5; round++) {
      const before = process.cpuUsage();
      evaluateFilter(filter, of);
      const { user, system } = process.cpuUsage(before);
      least = Math.min(least, (user + system) / 1_000);
    }
    return least;
  }
  const work = (filter: string, of: CanonicalEvent) => {
    const budget = new FilterBudget();
    const verdict = evaluateFilter(filter, of, budget);
    return { verdict, work: MAX_FILTER_WORK - budget.left };
  };
  const repeated = (part: string, count: number, operator = ' || ') => Array(count).fill(part).join(operator);

  it('ordinary filters take microseconds: hundreds of them fit into the budget of one event', () => {
    const cart = event({
      total: 120,
      currency: 'EUR',
      url: 'https://shop.example/'.padEnd(200, 'x'),
      items: Array.from({ length: 30 }, (_, n) => ({ sku: `s${n}`, price: n })),
    });
    const budget = new FilterBudget();
    for (let n = 0; n < 80; n++) {
      for (const filter of [
        `event.properties.total > ${n}.5 && event.properties.currency == "EUR"`,
        `event.properties.url.contains("campaign-${n}")`,
        `event.properties.items.exists(item, item.sku == "t${n}" && item.price > 5)`,
        `has(event.properties.total) && event.user_id.startsWith("${n}")`,
        `event.event in ["Paid", "Refunded", "x${n}"]`,
      ])
        expect(evaluateFilter(filter, cart, budget)).not.toBe('not evaluated');
    }
    expect(budget.left).toBeGreaterThan(0);
  });

  it('a loop over many items is evaluated as long as it fits', () => {
    const list = event({ list: Array.from({ length: 1_500 }, (_, n) => n) });
    expect(evaluateFilter('event.properties.list.exists(x, x == 1499)', list)).toBe('matched');
  });

  it.each<[what: string, filter: string, properties: JsonObject]>([
    [
      'rounds of a loop that all fail',
      repeated(`event.properties.list.exists(x, ${repeated('x.a', 11)})`, 4),
      { list: Array.from({ length: 900 }, () => 1) },
    ],
    [
      'rounds over a list that is reached through parentheses',
      repeated(`(event.properties).list.all(x, ${repeated('x < 1.5', 7, ' && ')})`, 4, ' && '),
      { list: Array.from({ length: 9_000 }, () => 1) },
    ],
    [
      'a duration of thousands of parts',
      'duration(event.properties.text) < duration("1h")',
      { text: '1ms'.repeat(8_000) },
    ],
    [
      'a duration that is a long number',
      'duration(event.properties.text) < duration("1h")',
      { text: '7'.repeat(25_000) },
    ],
    [
      'searches in long texts',
      repeated('event.properties.text.contains("xy")', 25),
      { text: 'x'.repeat(30_000) },
    ],
    ['sizes of long texts', repeated('size(event.properties.text) == 1', 25), { text: 'z'.repeat(30_000) }],
    [
      'comparisons of large objects',
      repeated('event.properties.a == event.properties.b', 20, ' && '),
      Object.fromEntries(
        ['a', 'b'].map((name) => [name, Array.from({ length: 700 }, (_, n) => ({ [`k${n}`]: [n] }))]),
      ),
    ],
  ])('%s are stopped when the budget is spent', (_, filter, properties) => {
    const of = event(properties);
    expect(filterFault(filter)).toBeUndefined();
    expect(evaluateFilter(filter, of)).toBe('not evaluated');
    expect(cost(filter, of)).toBeLessThan(40);
  });

  it('the work of a filter is the same each time, also at its compilation', () => {
    const of = event({ list: Array.from({ length: 50 }, (_, n) => ({ n })), text: 'a'.repeat(500) });
    const filter =
      'event.properties.list.exists(x, x.m == 1 || x.n == 70) || event.properties.text.contains("b")';
    const first = work(filter, of);
    expect(first.work).toBeGreaterThan(50 * 160);
    expect(work(filter, of)).toEqual(first);
  });

  it('once the budget is spent no further filter is evaluated', () => {
    const budget = new FilterBudget(10);
    expect(evaluateFilter('event.properties.ok', PAID, budget)).toBe('not evaluated');
    expect(evaluateFilter('event.properties.ok', PAID, budget)).toBe('not evaluated');
  });

  it('a deeply nested value is not compared, because each level would be a separate type', () => {
    const nested = event({ deep: JSON.parse(`${'['.repeat(9_000)}${']'.repeat(9_000)}`) });
    expect(evaluateFilter('event.properties.deep == "x"', nested)).toEqual({
      failed: 'looks at a value that is nested more than 32 deep',
    });
  });

  it('compiling more filters than the cache holds was not counted: it is counted beside the budget', () => {
    const long = (n: number) => `event.user_id == "${n}${'x'.repeat(900)}"`;
    const compiling = (filter: string) => {
      const budget = new FilterBudget();
      evaluateFilter(filter, PAID, budget);
      return budget;
    };
    const first = compiling(long(0));
    expect(first.compiledCharacters).toBe(long(0).length);
    expect(compiling(long(0))).toEqual({ left: first.left, compiledCharacters: 0 });
    for (let n = 1; n < 1_500; n++) compiling(long(n));
    expect(compiling(long(0))).toEqual(first);
  });
});
