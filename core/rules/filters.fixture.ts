import fc from 'fast-check';
import type { CanonicalEvent, JsonObject } from '../event/event.ts';

const AT = '2026-01-01T00:00:00.000Z';

export function eventWith(properties: JsonObject): CanonicalEvent {
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

/** As many keys as a request has that is close to the bound of an event. */
export const MOST_KEYS = 4_050;

export function mapOf(keys: number, value: (at: number) => JsonObject[string] = (at) => at): JsonObject {
  return Object.fromEntries(Array.from({ length: keys }, (_, at) => [`k${at}`, value(at)]));
}

export function nested(levels: number): JsonObject[string] {
  return JSON.parse(`${'['.repeat(levels)}1${']'.repeat(levels)}`);
}

const FIELDS = 'map other list text num bool none deep maps lists texts key missing time span'.split(' ');

const path = fc.constantFrom(
  ...FIELDS.map((name) => `event.properties.${name}`),
  ...['event', 'event.properties', 'event.user_id'],
);
const literal = fc.constantFrom(
  ...['0', '1', '2.5', '3u', 'true', 'null', 'map', 'string', '[]', '{}', '[1, 2]', '{"a": 1}', 'b"ab"'],
  ...['"a"', `"${AT}"`, '"1h"', `"${'x'.repeat(60)}"`],
);
const FUNCTIONS = ['size', 'int', 'double', 'string', 'bool', 'timestamp', 'duration', 'type'];
const METHODS = [
  ...['size()', 'lowerAscii()', 'upperAscii()', 'trim()'],
  ...['contains("xy")', 'startsWith("ab")', 'endsWith("z")'],
];
const OPERATORS = ['==', '!=', 'in', '<', '<=', '>', '>=', '-', '*', '/', '%', '&&', '||'];

const { expression } = fc.letrec<{ expression: string }>((tie) => {
  const part = tie('expression');
  return {
    expression: fc.oneof(
      { depthSize: 'small' },
      { weight: 4, arbitrary: path },
      { weight: 3, arbitrary: literal },
      ...[
        fc.tuple(fc.constantFrom(...FUNCTIONS), part).map(([name, a]) => `${name}(${a})`),
        fc.tuple(part, fc.constantFrom(...METHODS)).map(([a, method]) => `(${a}).${method}`),
        path.map((a) => `has(${a}.a.b)`),
        fc.tuple(part, part).map(([a, b]) => `(${a})[${b}]`),
        fc.tuple(part, part).map(([a, b]) => `[${a}, ${b}]`),
        fc.tuple(part, part, part).map(([a, b, c]) => `{${a}: ${b}, "k": ${c}}`),
        fc
          .tuple(part, fc.constantFrom(...OPERATORS), part)
          .map(([a, operator, b]) => `(${a} ${operator} ${b})`),
        fc.tuple(part, part).map(([a, b]) => `(${a} + size(${b}))`),
        fc.tuple(part, part, part).map(([a, b, c]) => `(${a} ? ${b} : ${c})`),
        fc.tuple(fc.constantFrom('!', '-'), part).map(([operator, a]) => `${operator}(${a})`),
        fc
          .tuple(path, fc.constantFrom('exists', 'all', 'exists_one'), part)
          .map(([a, loop, b]) => `${a}.${loop}(x, ${b.replaceAll('event', 'x')})`),
      ],
    ),
  };
});

/** Expressions of the whole language; most are valid filters, and the others have a fault. */
export const filters: fc.Arbitrary<string> = fc
  .tuple(
    expression,
    fc.constantFrom('==', '!=', 'in', '||', '&&', '<'),
    expression,
    fc.integer({ min: 1, max: 6 }),
  )
  .map(([a, operator, b, times]) => Array(times).fill(`(${a} ${operator} ${b})`).join(' || '));

/** Events from tiny to one large value of each kind. */
export const events: fc.Arbitrary<CanonicalEvent> = fc
  .record({
    large: fc.constantFrom('map', 'other', 'list', 'text', 'maps', 'lists', 'texts', 'none'),
    size: fc.constantFrom(0, 1, 5, 30, 33, 300, 900, MOST_KEYS),
    levels: fc.constantFrom(0, 3, 20, 40),
    text: fc.constantFrom('a', 'x', 'xy', '1h', '1ms', '7', '2026-01-01T00:00:00Z '),
    isSame: fc.boolean(),
  })
  .map(({ large, size, levels, text, isSame }) => {
    const sizeOf = (name: string) =>
      name === large || (isSame && large === 'map' && name === 'other') ? size : 3;
    return eventWith({
      map: mapOf(sizeOf('map')),
      other: mapOf(sizeOf('other')),
      list: Array.from({ length: sizeOf('list') }, (_, at) => at),
      text: text.repeat(sizeOf('text') * 7).slice(0, 30_000),
      maps: Array.from({ length: Math.ceil(sizeOf('maps') / 20) }, () => mapOf(40)),
      lists: Array.from({ length: sizeOf('lists') }, () => [1, [2, { a: 1 }]]),
      texts: Array.from({ length: sizeOf('texts') }, (_, at) => `t${at}`),
      num: size + 0.5,
      bool: true,
      none: null,
      deep: nested(levels),
      key: 'k1',
      time: AT,
      span: '1h',
    });
  });
