import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../event/event.ts';
import { threadMs } from '../primitives/thread-time.fixture.ts';
import { compiled, contractWith, fieldsOf, times, trackEvent, violationsOf } from './contracts.fixture.ts';
import { checkSchema } from './evaluation/compile-schema.ts';
import { createContractEvaluator } from './evaluator.ts';
import { MAX_WORK } from './work.ts';

/*
 * Contracts by which an author could hold up the events of others. Each attack is rejected when the contract
 * is created, or stays within the evaluation budget. The budget counts steps, so the figures are the same on
 * any machine.
 */

/** The work that the schema's checks spend on the subject, or `exhausted` when the meter ends them. */
function work(definition: JsonObject, subject: JsonObject): number | 'exhausted' {
  const schema = compiled(definition);
  const { declared, meter } = schema;
  try {
    violationsOf(schema, subject);
    const spent = MAX_WORK - meter.left;
    meter.reset();
    declared.undeclared(subject);
    return spent + MAX_WORK - meter.left;
  } catch (thrown) {
    if (thrown !== meter.exhausted) throw thrown;
    return 'exhausted';
  }
}

function web(levels: number, keyword: 'allOf' | 'anyOf' | 'oneOf'): JsonObject {
  const next = (at: number) => ({ $ref: `#/$defs/d${at + 1}` });
  const defs = times(levels, (at): [string, Json] => [`d${at}`, { [keyword]: [next(at), next(at)] }]);
  return { $ref: '#/$defs/d0', $defs: { ...Object.fromEntries(defs), [`d${levels}`]: {} } };
}

const PATTERNS: readonly [string, JsonObject][] = [
  ['990 short patterns', { allOf: times(990, (at) => ({ pattern: `^a${at}.*b$` })) }],
  ['500 patterns of many states', { allOf: times(500, (at) => ({ pattern: `(a|b)*a(a|b){9}${at}` })) }],
  ['400 patterns of all letters', { allOf: times(400, (at) => ({ pattern: `\\p{L}\\S\\p{N}${at}` })) }],
];

describe('refused when the contract is made', () => {
  const refused: readonly [string, JsonObject, RegExp][] = [
    ['a million enum values', { properties: { a: { enum: times(1_000_000, (at) => at) } } }, /KiB of JSON/],
    ['a hundred thousand short ones', { properties: { a: { enum: times(100_000, () => 1) } } }, /all enums/],
    ['allOf that doubles at every step', web(40, 'allOf'), /references written out/],
    ['anyOf that doubles at every step', web(40, 'anyOf'), /references written out/],
    ['oneOf that doubles at every step', web(40, 'oneOf'), /references written out/],
    [
      'a web in which each schema refers to each',
      {
        $ref: '#/$defs/d0',
        $defs: Object.fromEntries(
          times(41, (at): [string, Json] => [
            `d${at}`,
            at === 40 ? {} : { allOf: times(40 - at, (to) => ({ $ref: `#/$defs/d${at + to + 1}` })) },
          ]),
        ),
      },
      /references written out/,
    ],
    [
      'a chain of hundreds of references',
      {
        $ref: '#/$defs/d0',
        $defs: {
          ...Object.fromEntries(times(400, (at) => [`d${at}`, { $ref: `#/$defs/d${at + 1}` }])),
          d400: {},
        },
      },
      /must not be reached over/,
    ],
    ['nesting without end', JSON.parse(`${'{"not":'.repeat(9_000)}{}${'}'.repeat(9_000)}`), /nested at most/],
    [
      'a pattern of nested repeats',
      { properties: { a: { pattern: '((a{100}){100}){100}' } } },
      /repeats are too many/,
    ],
    ['a repeat of a million', { properties: { a: { pattern: 'a{1000000}' } } }, /repeats are too many/],
    ...PATTERNS.map(([name, definition]): [string, JsonObject, RegExp] => [
      name,
      definition,
      /must be smaller: its patterns/,
    ]),
    ['a pattern for names that looks back', { propertyNames: { pattern: '(a+)\\1' } }, /linear time/],
    ['a bound that is no whole number', { properties: { a: { maxLength: 1.5 } } }, /integer/],
    ['thousands of names asked for', { required: times(20_000, (at) => `n${at}`) }, /required at/],
    ['a multiple of nothing', { properties: { a: { multipleOf: 0 } } }, /more than 0/],
  ];

  it.each(refused)('%s: refused', (_, definition, message) => {
    expect(checkSchema(definition)[0]?.message).toMatch(message);
  });

  it.each(PATTERNS)('%s, but evaluated where an earlier release took them', (_, definition) => {
    expect(compiled(definition).weight).toBeGreaterThan(2 * 1024 * 1024);
  });

  it.each<[string, JsonObject]>([
    ['the properties of a large contract', { properties: fieldsOf(990, () => ({ type: 'string' })) }],
    [
      'a hundred patterns',
      { properties: fieldsOf(100, (at) => ({ type: 'string', pattern: `^[A-Z]{${at + 1}}-\\d+$` })) },
    ],
    ['500 enums', { properties: fieldsOf(500, (at) => ({ enum: times(20, (n) => `${at}_${n}`) })) }],
    [
      'unevaluated properties over 200 alternatives',
      {
        anyOf: times(200, (at) => ({ properties: { [`a${at}`]: { type: 'string' } } })),
        unevaluatedProperties: false,
      },
    ],
    ['thousands of names beside another', { dependentRequired: { x: times(20_000, (at) => `n${at}`) } }],
  ])('but not %s', (_, definition) => {
    expect(checkSchema(definition)).toEqual([]);
    expect(compiled(definition).weight).toBeLessThan(8 * 1024 * 1024);
  });

  it('in time linear in the definition, also where types or names are listed by the thousand', () => {
    // Comparing each pair would take 400 million comparisons.
    const many = times(28_000, (at) => `t${at}`);
    const started = threadMs();
    expect(checkSchema({ type: many })).not.toEqual([]);
    expect(checkSchema({ required: [...many, 't0'] })).toEqual([
      { path: '/required', message: 'must have no two items alike' },
    ]);
    expect(threadMs() - started).toBeLessThan(3_000);
  });
});

describe('bounded by the meter', () => {
  const text = 'a'.repeat(30_000);
  const stopped: readonly [string, JsonObject, JsonObject][] = [
    [
      'names asked for of thousands of items',
      { properties: { a: { items: { required: times(2_000, (at) => `n${at}`) } } } },
      { a: times(10_000, () => ({})) },
    ],
    [
      'names asked for beside another, of thousands of items',
      { properties: { a: { items: { dependentRequired: { x: times(500, (at) => `n${at}`) } } } } },
      { a: times(4_000, () => ({ x: 1 })) },
    ],
    [
      'a long text against hundreds of patterns',
      { properties: { a: { allOf: times(900, (at) => ({ pattern: `(a+)+b${at}$` })) } } },
      { a: text },
    ],
    [
      'a text against hundreds of formats',
      { properties: { a: { allOf: times(900, () => ({ format: 'uri' })) } } },
      { a: text.slice(0, 8_000) },
    ],
    [
      'thousands of names against hundreds of patterns',
      { patternProperties: Object.fromEntries(times(400, (at) => [`^(f+)+${at}x$`, {}])) },
      fieldsOf(2_000, () => 1),
    ],
    [
      'thousands of names against a long pattern for names',
      { propertyNames: { allOf: times(400, (at) => ({ pattern: `^(f+)+${at}x$` })) } },
      fieldsOf(2_000, () => 1),
    ],
    [
      'alternatives of alternatives, for each item',
      {
        properties: {
          a: { items: { anyOf: times(30, () => ({ anyOf: times(30, () => ({ type: 'null' })) })) } },
        },
      },
      { a: times(1_000, () => 1) },
    ],
    [
      'a tree that is evaluated twice at every level',
      { properties: { a: { $ref: '#' } }, patternProperties: { a: { $ref: '#' } } },
      JSON.parse(`${'{"a":'.repeat(60)}1${'}'.repeat(60)}`),
    ],
    [
      'items written out again at every level of a tree',
      {
        properties: { a: { $ref: '#/$defs/list' } },
        $defs: { list: { uniqueItems: true, items: { $ref: '#/$defs/list' } } },
      },
      { a: JSON.parse(`${'['.repeat(480)}"${'x'.repeat(40_000)}"${']'.repeat(480)}`) },
    ],
    [
      'undeclared fields looked for among hundreds of schemas',
      { patternProperties: { '^x$': {} }, allOf: times(480, () => ({ properties: { y: {} } })) },
      fieldsOf(5_000, () => 1),
    ],
  ];

  it.each(stopped)('%s', (_, definition, subject) => {
    expect(work(definition, subject)).toBe('exhausted');
  });

  it.each<[string, JsonObject, JsonObject]>([
    [
      'bounds as large as numbers go',
      {
        properties: {
          a: { maxLength: 1e308, minimum: -1e308, maximum: 1e308, multipleOf: 1e308 },
          b: { maxItems: 1e308, minItems: 0, maxContains: 1e308, contains: {} },
          c: { multipleOf: 5e-324 },
        },
        maxProperties: 1e308,
      },
      { a: 1e308, b: [1], c: 1e308 },
    ],
    [
      'ten thousand lists in an enum, against thousands of items',
      { properties: { a: { items: { enum: times(10_000, (at) => [at]) } } } },
      { a: times(500, () => ({})) },
    ],
    [
      'thousands of items that must differ',
      { properties: { a: { uniqueItems: true } } },
      { a: times(4_000, (at) => at) },
    ],
    [
      'the lines of the largest order an event has room for',
      {
        properties: {
          lines: {
            type: 'array',
            maxItems: 500,
            items: {
              type: 'object',
              required: ['sku', 'price'],
              properties: {
                sku: { type: 'string', pattern: '^[A-Z]{3}-\\d{6}$' },
                price: { type: 'number', minimum: 0, multipleOf: 0.01 },
                currency: { enum: ['EUR', 'USD'] },
                url: { type: 'string', format: 'uri' },
                tags: { type: 'array', uniqueItems: true, items: { type: 'string', maxLength: 20 } },
              },
              additionalProperties: false,
            },
          },
        },
      },
      {
        lines: times(250, (at) => ({
          sku: `ABC-${100_000 + at}`,
          price: 19.99,
          currency: 'EUR',
          url: 'https://example.com/a/b',
          tags: ['a', 'b'],
        })),
      },
    ],
    [
      'as many numbers as an event has room for',
      { properties: { a: { items: { type: 'integer', minimum: 0 } } } },
      { a: times(16_000, () => 1) },
    ],
    [
      'a map of thousands of names',
      { properties: { map: { additionalProperties: { type: 'number' } } } },
      { map: fieldsOf(2_700, (at) => at) },
    ],
    ['one field among hundreds', { properties: fieldsOf(990, () => ({ type: 'integer' })) }, { f7: 1 }],
  ])('or done for little: %s', (_, definition, subject) => {
    expect(work(definition, subject)).toBeLessThan(MAX_WORK / 2);
  });
});

describe('the events of another contract', () => {
  const contractOf = (id: string, schema_definition: JsonObject) =>
    contractWith({ id, schema_definition, undeclared_fields: 'omit' });

  it('are evaluated in full between events that exhaust the meter of their contract', () => {
    const evaluator = createContractEvaluator();
    const hostile = contractOf('hostile', {
      properties: { a: { items: { allOf: times(900, () => ({ type: 'string' })) } } },
    });
    const honest = contractOf('honest', { properties: { plan: { type: 'string', required: true } } });
    for (let round = 0; round < 3; round++) {
      const stuck = evaluator.evaluate(hostile, trackEvent({ a: times(1_000, () => 1) }));
      const [why, ...found] = stuck.violations;
      expect(why?.message).toBe('cannot be evaluated: it takes too much work');
      expect(found.every(({ message }) => message === 'must be a string')).toBe(true);
      expect(evaluator.evaluate(honest, trackEvent({ plan: 'pro', x: 1 })).outcome).toBe('omitted');
    }
  });

  it('get the same verdict whatever was evaluated before', () => {
    const shapes = contractOf('shapes', {
      patternProperties: { '^x': { $ref: '#' } },
      allOf: times(64, (at) => ({ properties: { [`f${at}`]: { type: 'integer' } } })),
    });
    const event = trackEvent({ ...fieldsOf(80, (at) => at), x: { f1: 'a', y: 1 } });
    const evaluator = createContractEvaluator();
    const first = evaluator.evaluate(shapes, event);
    evaluator.evaluate(shapes, trackEvent({ x1: { x2: { f1: 1 } } }));
    expect(evaluator.evaluate(shapes, event)).toEqual(first);
    expect(createContractEvaluator().evaluate(shapes, event)).toEqual(first);
  });
});
