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

/** What every object inherits, and what the language or a promise asks of one. */
const BUILT_IN_NAMES = [
  ...Object.getOwnPropertyNames(Object.prototype),
  ...['prototype', 'then', 'toJSON', 'length', 'size', 'get', 'nanos', 'rawJSON'],
];

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
    for (const name of BUILT_IN_NAMES)
      expect(evaluateFilter(`event.properties.${name} == 1`, PAID)).toEqual({
        failed: `No such key: ${name}`,
      });
  });

  // `constructor` made every filter on its object fail: the evaluator took it for the class of the object.
  it.each(
    BUILT_IN_NAMES.flatMap((name) =>
      ['"McLaren"', 'null', '{"name": "x"}', '[1]', '7'].map((text) => [name, text]),
    ),
  )('an object with the name %s of %s is an object like others', (name, text) => {
    const object = JSON.parse(`{"${name}": ${text}, "n": 3, "list": [{"${name}": ${text}}]}`) as JsonObject;
    const twice = event({ a: object, b: structuredClone(object), ...object });
    for (const filter of [
      `event.properties.a.${name} == ${text} && event.properties["a"]["${name}"] == ${text}`,
      `has(event.properties.${name}) && event.properties.n == 3`,
      `!has(event.properties.a.${name}s) && "${name}" in event.properties.a && size(event.properties.a) == 3`,
      'event.properties.a == event.properties.b && event.properties.a in [event.properties.b]',
      `event.properties.a.exists_one(key, key == "${name}") && type(event.properties.a) == map`,
      `event.properties.list.all(item, item == {"${name}": ${text}} && item.${name} == ${text})`,
      `event.properties.list != [{"${name}s": ${text}}] && {"${name}": 1}["${name}"] == 1`,
      `!has(event.context.${name})`,
    ])
      expect([filter, filterFault(filter), evaluateFilter(filter, { ...twice, context: {} })]).toEqual([
        filter,
        undefined,
        'matched',
      ]);
  });
});

describe('as CEL says, where the library did otherwise', () => {
  const sent = event({ text: 'ab', n: 3, other: { a: 1 }, big: 1e99, at: '2026-03-01T00:00:00.000000001Z' });

  it.each([
    'duration("1h") + timestamp(event.timestamp) > timestamp(event.timestamp)',
    'duration("1h") + duration("1s") + timestamp(event.timestamp) > timestamp(event.timestamp) + duration("1h")',
    'timestamp(event.properties.at) > timestamp("2026-03-01T00:00:00Z")',
    'timestamp(event.properties.at) - timestamp("2026-03-01T00:00:00Z") == duration("1ns")',
    'string(timestamp(event.properties.at)) == event.properties.at',
    'string(duration("-90.5s")) == "-90.5s" && duration("1h30m") == duration("5400s")',
    'int(timestamp("1970-01-01T00:01:00+00:00")) == 60 && timestamp(60) == timestamp("1970-01-01T01:01:00+01:00")',
    '-9223372036854775808 < 0 && 9223372036854775807 > 0 && 9223372036854775807 != 9223372036854775806',
    'event.properties.text != 5 && !(event.properties.text == event.properties.n)',
    'event.properties.other != event.properties.text && !(event.properties.n in ["3"])',
    '"İ".lowerAscii() == "İ" && "AbÉ".lowerAscii() == "abÉ"',
  ])('%s', (filter) => {
    expect([filterFault(filter), evaluateFilter(filter, sent)]).toEqual([undefined, 'matched']);
  });

  it.each([
    ['int(1e99) == 1', /integer overflow/],
    ['int(event.properties.big) == 1', /integer overflow/],
    ['-(-9223372036854775808) > 0', /integer overflow/],
    ['9223372036854775807 + 1 > 0', /integer overflow/],
    ['uint(-1) == 1u', /unsigned integer overflow/],
    ['timestamp("2026-02-30T00:00:00Z") > timestamp(0)', /takes a time/],
    ['timestamp("9999-12-31T23:59:59Z") + duration("1s") > timestamp(0)', /timestamp overflow/],
    ['duration("2562048h") > duration("0s")', /duration overflow/],
    ['{1: "a", 1u: "b"} == {}', /a key twice/],
    ['timestamp(event.properties.text) > timestamp(0)', /takes a time/],
  ])('%s fails', (filter, failed) => {
    expect(filterFault(filter)).toBeUndefined();
    expect(evaluateFilter(filter, sent)).toEqual({ failed: expect.stringMatching(failed) });
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
  const [, block = ''] = /^## Filters\n[\s\S]*?```\n([\s\S]*?)```/m.exec(guide) ?? [];
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
    ['event.properties.qty * 2', /gives a number/],
    ['event.properties.ok ? event.properties.qty + 1 : 2', /gives a number/],
    ['event.properties.qty * 2 && event.properties.ok', /a number where it must say true or false/],
    ['!(event.properties.qty - 1)', /a number where it must say true or false/],
    ['event.user_id.matches("^(a+)+$")', /matches is not available/],
    ['event.properties.a.contains(event.properties.b)', /must spell out/],
    ['event.properties.a.exists(x, event.properties.b.exists(y, x == y))', /event in each round/],
    ['event.properties.a.exists(x, x.exists(y, y == 1))', /a loop in a loop/],
    ['event.properties.a.exists(x, x in event.properties.b)', /event in each round/],
    ['event.properties.a.map(x, x) == []', /map is not available/],
    ['event.properties.a.split("").join(event.properties.b) == ""', /is not available/],
    [`(${Array(40).fill('event.properties.l').join('+')}).size() == 1`, /\+ adds numbers/],
    ['event.properties.a.exists(x, x + x == x)', /\+ adds numbers/],
    ['"a" + event.properties.b == "ab"', /\+ adds numbers/],
    [
      `[event.properties.a, event.properties.b].exists(x, x.contains("a"))`,
      /a list that it makes of the event/,
    ],
    [Array(5).fill('event.properties.a.exists(x, x > 1)').join(' || '), /more than 4 loops/],
    ['evaluator()', /evaluator/],
    ['cel.bind(x, event.properties.a + event.properties.a, x == x)', /./],
    [`"${'x'.repeat(MAX_FILTER_LENGTH)}" == event.user_id`, /more than 1000 characters/],
    [`${'!'.repeat(200)}event.properties.ok`, /./],
  ])('%s', (filter, fault) => {
    expect(filterFault(filter)).toMatch(fault);
  });

  it.each([
    ['event.userId == "u"', 'event has no userId: did you mean event.user_id?'],
    ['has(event.messageId) && event.event == "x"', 'event has no messageId: did you mean event.message_id?'],
    ['event["receivedAt"] == ""', 'event has no receivedAt: did you mean event.received_at?'],
    ['event.anonymousID == ""', 'event has no anonymousID: did you mean event.anonymous_id?'],
    [
      'event.items.exists(x, x.userId == 1)',
      'event has no items: did you mean event.properties.items or event.traits.items?',
    ],
    ['event.constructor == 1', /event has no constructor/],
    ['properties.total > 1', 'Unknown variable: properties; did you mean event.properties?'],
    ['groupId == "x"', 'Unknown variable: groupId; did you mean event.group_id?'],
    ['total > 1', /Unknown variable: total; did you mean event.properties.total/],
  ])('a name that no event has made each event a dead delivery: %s', (filter, fault) => {
    expect(filterFault(filter)).toMatch(fault);
  });

  it('a name that only looks like one of the event is a field of its properties', () => {
    expect(filterFault('event.properties.userId == "u" && event.traits.messageId == "m"')).toBeUndefined();
    // A loop may call its item so.
    expect(filterFault('event.properties.list.exists(userId, userId.event == 1)')).toBeUndefined();
  });

  it('a stored filter with such a name is still run: the name may do no harm', () => {
    expect(evaluateFilter('has(event.userId) || event.user_id == "u1"', PAID)).toBe('matched');
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
      'durations of thousands of parts',
      repeated('duration(event.properties.text) > duration("1h")', 12),
      { text: '1ms'.repeat(9_000) },
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
    expect(first.work).toBeGreaterThan(50 * 40);
    expect(work(filter, of)).toEqual(first);
  });

  it('once the budget is spent no further filter is evaluated', () => {
    const budget = new FilterBudget('', 10);
    expect(evaluateFilter('event.properties.ok', PAID, budget)).toBe('not evaluated');
    expect(evaluateFilter('event.properties.ok', PAID, budget)).toBe('not evaluated');
  });

  it('deeply nested values are not compared, because each level would be a call in a call', () => {
    const deep = `${'['.repeat(9_000)}${']'.repeat(9_000)}`;
    const nested = event({ deep: JSON.parse(deep), other: JSON.parse(deep) });
    expect(evaluateFilter('event.properties.deep == event.properties.other', nested)).toEqual({
      failed: 'compares values that are nested more than 32 deep',
    });
    expect(evaluateFilter('event.properties.deep == "x"', nested)).toBe('not matched');
  });

  it('compiling more filters than the cache holds was not counted: it is counted beside the budget', () => {
    const long = (n: number) => `event.user_id == "${n}${'x'.repeat(900)}"`;
    const compiling = (filter: string, owner = '') => {
      const budget = new FilterBudget(owner);
      evaluateFilter(filter, PAID, budget);
      return budget;
    };
    const first = compiling(long(0));
    expect(first.compiledCharacters).toBe(long(0).length);
    expect(compiling(long(0))).toMatchObject({ left: first.left, compiledCharacters: 0 });
    for (let n = 1; n < 1_500; n++) compiling(long(n));
    expect(compiling(long(0))).toEqual(first);
    // Not those of an organization with fewer.
    expect(compiling('event.type == "track"', 'other').compiledCharacters).toBeGreaterThan(0);
    for (let n = 0; n < 1_500; n++) compiling(long(n));
    expect(compiling('event.type == "track"', 'other').compiledCharacters).toBe(0);
  });
});
