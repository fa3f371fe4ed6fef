import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CanonicalEvent, JsonObject } from '../event/event.ts';
import { threadMs } from '../primitives/thread-time.fixture.ts';
import { evaluateFilter, filterFault } from './filter.ts';
import {
  FilterBudget,
  FUNCTIONS,
  MAX_FILTER_WORK,
  METHODS,
  MS_PER_FILTER_WORK,
  QUANTIFIERS,
} from './filter-evaluator.ts';
import { filterLanguage } from './filter-language.ts';
import { events, eventWith, filters, MOST_KEYS, mapOf, nested } from './filters.fixture.ts';

/** By how much an evaluation may take longer than its counted work says. */
const FACTOR = 5;
/** Processor time below which measuring is not exact, ms. */
const FLOOR_MS = 0.3;
/** Evaluations at most, of which the fastest counts: another load of the machine slows only some. */
const REPETITIONS = 30;
const RANDOM_FILTERS = 1_000;

/** Undefined where an evaluation took no longer than its counted work allows. */
function excessOf(filter: string, event: CanonicalEvent): string | undefined {
  let tookMs = Number.POSITIVE_INFINITY;
  let countedMs = 0;
  for (let n = 0; n < REPETITIONS; n++) {
    const budget = new FilterBudget();
    const before = threadMs();
    evaluateFilter(filter, event, budget);
    tookMs = Math.min(tookMs, threadMs() - before);
    countedMs = (MAX_FILTER_WORK - budget.left) * MS_PER_FILTER_WORK;
    if (tookMs <= Math.max(FLOOR_MS, countedMs) * FACTOR) return undefined;
  }
  return `took ${tookMs.toFixed(2)} ms, counted ${countedMs.toFixed(2)} ms`;
}

const many = <Item>(count: number, item: (at: number) => Item) =>
  Array.from({ length: count }, (_, at) => item(at));

/** The value `v` of an event; `w` is another one of the same content. */
const SHAPES: Readonly<Record<string, JsonObject[string]>> = {
  'a map of 4,050 keys': mapOf(MOST_KEYS),
  'a map of 900 keys of maps': mapOf(900, () => ({ a: { b: 1 } })),
  'a map of numbers as keys': Object.fromEntries(many(MOST_KEYS, (at) => [String(at * 7), 1])),
  'a list of 9,000 numbers': many(9_000, (at) => at + 0.1),
  'a list of 700 maps': many(700, (at) => ({ [`k${at}`]: [at] })),
  'a list of 40 maps of 40 keys': many(40, () => mapOf(40)),
  'a list of 30 equal texts': many(30, () => 'x'.repeat(1_000)),
  'a list of lists': many(1_500, () => [[[1]]]),
  'a text of 1 MiB': 'a'.repeat(1024 * 1024),
  'a text of digits': '7'.repeat(30_000),
  'a text of a duration': '1ms'.repeat(9_000),
  'a text beyond Latin': 'İß'.repeat(10_000),
  '32 levels of lists': nested(31),
  'a large number': 1e308,
  'a small number': 1.234_567_890_123e-300,
};

const V = 'event.properties.v';
const W = 'event.properties.w';
const OPERATIONS: readonly string[] = [
  ...['==', '!=', '<', '<=', '>', '>=', 'in'].flatMap((operator) => [
    `${V} ${operator} ${W}`,
    `${V} ${operator} [${W}, ${V}]`,
    `[${V}] ${operator} [${W}]`,
    `{"a": ${V}} ${operator} {"a": ${W}}`,
    `${V} ${operator} {}`,
    `"k1" ${operator} ${V}`,
  ]),
  ...['+', '-', '*', '/', '%'].map((operator) => `(${V} ${operator} 2) == 1`),
  `-${V} == 1`,
  `!${V}`,
  `${V} ? true : false`,
  `${V} || ${W}`,
  `${V} && ${W}`,
  `(${V})[${W}] == 1`,
  `event.properties[${V}] == 1`,
  `{${V}: 1} == {${W}: 1}`,
  `{timestamp("2026-01-01T00:00:00Z"): 1, duration("1.5s"): 2} == {}`,
  `${V}.exists(x, {x: 1} == {x: 2})`,
  `${V}.exists(x, {"a": x} == {"b": x})`,
  `${V}.exists(x, {timestamp("2026-01-01T00:00:00Z"): x} == {})`,
  `${V}.exists(x, {duration("1.5s"): x} == {})`,
  `${V}.exists(x, b"${'a'.repeat(400)}" == b"${'a'.repeat(400)}")`,
  `${V}.exists(x, x in [[x], {"a": x}, x])`,
  `${V}.exists(x, x.a.b.c == 1 || x[0] == 1)`,
  `${V}.exists(x, has(x.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a))`,
  ...Object.keys(FUNCTIONS)
    .filter((name) => name !== 'has')
    .flatMap((name) => [`${name}(${V}) == ${name}(${W})`, `${V}.exists(x, ${name}(x) == ${name}(1))`]),
  `has(${V}.a)`,
  ...Object.keys(METHODS).flatMap((name) => {
    const argument = ['contains', 'startsWith', 'endsWith'].includes(name) ? `"b${'a'.repeat(200)}"` : '';
    return [
      `${V}.${name}(${argument}) == ${W}.${name}(${argument})`,
      `${V}.all(x, x.${name}(${argument}) == x)`,
    ];
  }),
  ...[...QUANTIFIERS].flatMap((name) => [`${V}.${name}(x, x == -1)`, `${V}.${name}(x, type(x) == string)`]),
].flatMap((filter) => [
  filter,
  many(200, () => `(${filter})`)
    .slice(0, Math.floor(990 / (filter.length + 6)))
    .join(' || '),
]);

describe('the time of each operation of filters', () => {
  it.each(Object.entries(SHAPES))('is counted for %s', (_, v) => {
    const event = eventWith({ v, w: structuredClone(v) });
    const filters = OPERATIONS.filter((filter) => filter !== '' && filterFault(filter) === undefined);
    expect(filters.length).toBeGreaterThan(100);
    const excesses = filters.flatMap((filter) => {
      const excess = excessOf(filter, event);
      return excess === undefined ? [] : [`${filter.slice(0, 100)}: ${excess}`];
    });
    expect(excesses).toEqual([]);
  });

  it('is counted for random filters on random events', () => {
    fc.assert(
      fc.property(filters, events, (filter, event) => {
        fc.pre(filterFault(filter) === undefined);
        expect(excessOf(filter, event)).toBeUndefined();
      }),
      { numRuns: RANDOM_FILTERS, maxSkipsPerRun: 1_000, endOnFailure: true },
    );
  });

  it('operations of the library without a charge are not available', () => {
    const { functions } = filterLanguage.getDefinitions();
    expect(functions.length).toBeGreaterThan(100);
    const argument = (type: string) => (type === 'ast' ? 'x' : V);
    const open = functions.filter(({ name, receiverType, params }) => {
      const call = `${name}(${params.map(({ type }) => argument(type)).join(', ')})`;
      if (receiverType === null)
        return !(name in FUNCTIONS) && filterFault(`type(${call}) == int`) === undefined;
      if (name in METHODS || QUANTIFIERS.has(name)) return false;
      return filterFault(`type(${V}.${call}) == int`) === undefined;
    });
    expect(open.map(({ signature }) => signature)).toEqual([]);
  });

  it('200 rules that ask for the size of an event of 4,050 keys held the thread for half a second', () => {
    const event = eventWith(mapOf(MOST_KEYS));
    const budget = new FilterBudget();
    const before = threadMs();
    for (let n = 0; n < 200; n++)
      evaluateFilter(`size(event.properties) < 0 || event.user_id == "${n}"`, event, budget);
    expect(threadMs() - before).toBeLessThan(60);
    // The keys are listed once, so that all of them are evaluated.
    expect(budget.isSpent).toBe(false);
  });
});
