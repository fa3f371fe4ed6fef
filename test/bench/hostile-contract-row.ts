import {
  type CanonicalEvent,
  type Contract,
  createContractEvaluator,
  type Json,
  type JsonObject,
} from '@tributary/core';
import type { BenchRow } from './table.ts';

/** The upper bound on the core time that the worst contract may use for one event, ms. */
const BAR_MS = 3;
const AT = '2026-01-02T03:04:05.678Z';

/** The maximum time of the hostile contracts for one event, once their code is warm. */
export function hostileContractRow({ ms }: { ms: number }): BenchRow {
  const measured = HOSTILE_CONTRACTS.map((one) => ({ name: one.name, ms: evaluationMs(one, ms) }));
  const [worst, ...others] = measured.toSorted((a, b) => b.ms - a.ms);
  return {
    path: `evaluating an event, the worst of ${measured.length} hostile contracts`,
    figure: [worst, ...others.slice(0, 3)].map((one) => `${one?.ms.toFixed(2)} ms (${one?.name})`).join(', '),
    baseline: '-',
    ratio: null,
    bar: `<= ${BAR_MS} ms`,
    holds: (worst?.ms ?? Number.POSITIVE_INFINITY) <= BAR_MS,
  };
}

function evaluationMs(hostile: HostileContract, forMs: number): number {
  const { evaluate } = createContractEvaluator();
  const contract = hostileContract(hostile);
  const event = hostileEvent(hostile.subject);
  const taken: number[] = [];
  const until = performance.now() + forMs;
  while (taken.length < 20 || performance.now() < until) {
    const startedAt = performance.now();
    evaluate(contract, event);
    taken.push(performance.now() - startedAt);
  }
  return taken.sort((a, b) => a - b)[Math.floor(taken.length / 4)] ?? 0;
}

/** A contract with the slowest constructs. */
export function hostileContract({ name, definition }: HostileContract): Contract {
  return {
    id: name,
    version: 1,
    workspace_id: 'w',
    name,
    event_type: 'track',
    event_name: 'e',
    description: null,
    schema_definition: definition,
    enforcement_mode: 'warn',
    undeclared_fields: 'omit',
    status: 'active',
    created_by: 'bench',
    created_at: AT,
    updated_at: AT,
  };
}

export function hostileEvent(properties: JsonObject): CanonicalEvent {
  return {
    message_id: 'm',
    type: 'track',
    event: 'e',
    user_id: 'u',
    properties,
    timestamp: AT,
    received_at: AT,
    environment: 'production',
    workspace_id: 'w',
  };
}

/** A contract designed to be slow, and its slowest event. */
export interface HostileContract {
  readonly name: string;
  readonly definition: JsonObject;
  readonly subject: JsonObject;
}

/** Bytes available for the `properties` of an event. */
const ROOM = 32 * 1024 - 400;

function times<Item>(count: number, item: (at: number) => Item): Item[] {
  return Array.from({ length: count }, (_, at) => item(at));
}

/** As many items as fit into an event. */
function full(item: (at: number) => Json, room = ROOM): Json[] {
  return times(Math.floor(room / (JSON.stringify(item(1_000)).length + 1)), item);
}

function fullOfFields(name: (at: number) => string, value: Json, room = ROOM): JsonObject {
  const size = name(10_000).length + JSON.stringify(value).length + 4;
  return Object.fromEntries(times(Math.floor(room / size), (at) => [name(at), value]));
}

function on(a: Json, rest: JsonObject = {}): JsonObject {
  return { properties: { a }, ...rest };
}

function many(count: number, schema: (at: number) => Json): JsonObject {
  return { allOf: times(count, schema) };
}

function defined(count: number, schema: (at: number) => Json): JsonObject {
  return Object.fromEntries(times(count, (at) => [`d${at}`, schema(at)]));
}

function contract(name: string, definition: JsonObject, subject: JsonObject): HostileContract {
  return { name, definition, subject };
}

const NUMBERS = { a: full(() => 1) };
const LISTS = { a: full((at) => [at]) };
const OBJECTS = { a: full(() => ({})) };
const FIELDS = fullOfFields((at) => `f${at}`, 1);
const TEXT = { type: 'string' };
const NUMBER = { type: 'integer' };
const CONDITION = Object.fromEntries(['if', 'then', 'else'].map((keyword) => [keyword, TEXT]));

/** A text without any pattern for a branch predictor to learn. */
function disorder(length: number): string {
  let state = 7;
  return times(length, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return state >>> 31 === 0 ? 'a' : 'b';
  }).join('');
}

const MULTIPLIED: readonly HostileContract[] = [
  contract('items that are wrong', on({ items: TEXT }), NUMBERS),
  contract('items, wrong a hundred times', on({ items: many(100, () => TEXT) }), NUMBERS),
  contract('items, wrong 990 times', on({ items: many(990, () => TEXT) }), NUMBERS),
  contract('items, right 990 times', on({ items: many(990, () => NUMBER) }), NUMBERS),
  contract('one value, wrong 990 times', on(many(990, () => TEXT)), { a: 1 }),
  contract(
    'items under many keywords',
    on({ items: { ...TEXT, enum: ['x'], const: 'y', minimum: 5, maximum: 0, multipleOf: 7, not: NUMBER } }),
    NUMBERS,
  ),
  contract(
    'alternatives of alternatives',
    on({ items: { anyOf: times(30, () => ({ anyOf: times(30, () => TEXT) })) } }),
    NUMBERS,
  ),
  contract(
    'one of one of many',
    on({ items: { oneOf: times(30, () => ({ oneOf: times(30, () => TEXT) })) } }),
    NUMBERS,
  ),
  contract('conditions', on({ items: many(100, () => CONDITION) }), NUMBERS),
  contract('a search among items', on({ contains: { anyOf: times(900, () => TEXT) } }), NUMBERS),
  contract(
    'names asked for of each item',
    on({ items: { required: times(500, (at) => `n${at}`) } }),
    OBJECTS,
  ),
  contract('thousands of names asked for', { required: times(4_000, (at) => `n${at}`) }, { a: 1 }),
  contract(
    'names asked for beside others',
    on({ items: { dependentRequired: { x: times(500, (at) => `n${at}`) } } }),
    { a: full(() => ({ x: 1 })) },
  ),
  contract('fields of each item', on({ items: { properties: defined(900, () => TEXT) } }), OBJECTS),
];

const REFERRED: readonly HostileContract[] = [
  contract(
    'items by reference',
    on({ items: { $ref: '#/$defs/d0' } }, { $defs: defined(1, () => TEXT) }),
    NUMBERS,
  ),
  contract(
    'alternatives by reference, whose errors are copied each time',
    on(
      { items: { anyOf: times(20, (at) => ({ $ref: `#/$defs/d${at}` })) } },
      { $defs: defined(20, () => TEXT) },
    ),
    NUMBERS,
  ),
  contract(
    'a chain of references for each item',
    on(
      { items: { $ref: '#/$defs/d0' } },
      { $defs: defined(190, (at) => (at === 189 ? NUMBER : { $ref: `#/$defs/d${at + 1}` })) },
    ),
    NUMBERS,
  ),
  contract(
    'a tree that is evaluated twice at each level',
    { properties: { a: { $ref: '#' } }, patternProperties: { a: { $ref: '#' } } },
    JSON.parse(`${'{"a":'.repeat(60)}1${'}'.repeat(60)}`) as JsonObject,
  ),
  contract(
    'a tree of thousands of leaves',
    { items: { $ref: '#' }, properties: { a: { $ref: '#' } }, type: ['object', 'array'] },
    { a: full(() => []) },
  ),
  contract(
    'items written out again at each level',
    {
      ...on({ $ref: '#/$defs/d0' }),
      $defs: defined(1, () => ({ uniqueItems: true, items: { $ref: '#/$defs/d0' } })),
    },
    { a: JSON.parse(`${'['.repeat(480)}"${'x'.repeat(30_000)}"${']'.repeat(480)}`) as Json },
  ),
];

const COMPARED: readonly HostileContract[] = [
  contract(
    'objects looked for in an enum',
    on({ items: { enum: times(5_000, (at) => ({ a: at, b: at })) } }),
    {
      a: full(() => ({ b: 1, a: 2 })),
    },
  ),
  contract('a long text in hundreds of enums', on(many(900, (at) => ({ enum: [{ k: at }] }))), {
    a: { k: 'x'.repeat(ROOM - 100) },
  }),
  contract(
    'items against hundreds of constants',
    on({ items: many(900, () => ({ const: { a: [[[1]]] } })) }),
    {
      a: full(() => ({ a: [[[2]]] })),
    },
  ),
  contract('lists that must differ', on({ uniqueItems: true }), LISTS),
  contract('numbers that must differ, hundreds of times', on(many(900, () => ({ uniqueItems: true }))), {
    a: full((at) => at),
  }),
  contract('multiples', on({ items: many(100, () => ({ multipleOf: 1e-300 })) }), { a: full(() => 1.7e-10) }),
  contract('the length of a long text, hundreds of times', on(many(900, () => ({ minLength: 12_000 }))), {
    a: 'é'.repeat(ROOM / 2),
  }),
  contract(
    'the number of fields, hundreds of times',
    many(900, () => ({ maxProperties: 5 })),
    FIELDS,
  ),
];

const NAMED: readonly HostileContract[] = [
  contract(
    'names against hundreds of patterns',
    { patternProperties: Object.fromEntries(times(400, (at) => [`^(f+)+${at}x$`, {}])) },
    FIELDS,
  ),
  contract('names against one pattern', { patternProperties: { '^f+\\d+$': TEXT } }, FIELDS),
  contract(
    'names under hundreds of schemas',
    { patternProperties: { '^x$': {} }, ...many(480, () => ({ properties: { y: {} } })) },
    FIELDS,
  ),
  contract('names that none has', { propertyNames: { anyOf: times(900, () => ({ maxLength: 0 })) } }, FIELDS),
  contract('fields that are not there', { properties: defined(990, () => TEXT) }, FIELDS),
  contract(
    'fields beside those that are allowed',
    { additionalProperties: false, properties: defined(900, () => ({})) },
    FIELDS,
  ),
  contract(
    'fields that nothing evaluates',
    { unevaluatedProperties: false, ...many(100, (at) => ({ properties: { [`p${at}`]: {} } })) },
    FIELDS,
  ),
  contract('fields that are not declared', { properties: { x: TEXT } }, FIELDS),
  contract('fields of items that are not declared', on({ items: { properties: { x: {} } } }), {
    a: full(() => ({ y: 1 })),
  }),
  contract(
    'a name as long as an event',
    { additionalProperties: { items: TEXT } },
    { ['k'.repeat(16_000)]: full(() => 1, 16_000) },
  ),
  contract(
    'a long name that is escaped',
    { additionalProperties: { additionalProperties: TEXT } },
    { ['~/'.repeat(12_000)]: fullOfFields((at) => `k${at}`, 1, 7_000) },
  ),
];

const READ: readonly HostileContract[] = [
  ...[10, 20, 100, 400].map((length) =>
    contract(
      `a pattern that needs a state for each character, ${length}`,
      on({ pattern: `(a|b)*a(a|b){${length}}[cd]` }),
      {
        a: disorder(ROOM),
      },
    ),
  ),
  contract('thirty such patterns', on(many(30, (at) => ({ pattern: `(a|b)*a(a|b){${at + 5}}[cd]` }))), {
    a: disorder(ROOM),
  }),
  contract('such a pattern for each item', on({ items: { pattern: '(a|b)*a(a|b){20}[cd]' } }), {
    a: full((at) => disorder(40 + at).slice(-40)),
  }),
  contract('a pattern of every letter there is', on({ pattern: '^(\\p{L}|\\p{N}|\\S){300}$' }), {
    a: times(ROOM / 3, (at) => String.fromCharCode(0x4e00 + ((at * 7_919) % 9_000))).join(''),
  }),
  contract('patterns over a long text', on(many(30, (at) => ({ pattern: `^(a|b)+${at}$` }))), {
    a: disorder(ROOM),
  }),
  ...[
    'date-time',
    'email',
    'hostname',
    'ipv6',
    'uri',
    'uri-template',
    'url',
    'regex',
    'byte',
    'duration',
  ].flatMap((format) => [
    contract(`${format}, hundreds of times`, on(many(900, () => ({ format }))), {
      a: `${'a.'.repeat(30)}@b`,
    }),
    contract(`${format} of each item`, on({ items: { format } }), {
      a: full(() => `${'(a|b)*'.repeat(5)}x@b`),
    }),
    contract(`${format}, long`, on(many(20, () => ({ format }))), { a: 'http://a/%20'.repeat(600) }),
  ]),
];

/** Each is an accepted contract, and an acceptable event. */
export const HOSTILE_CONTRACTS: readonly HostileContract[] = [
  ...MULTIPLIED,
  ...REFERRED,
  ...COMPARED,
  ...NAMED,
  ...READ,
];
