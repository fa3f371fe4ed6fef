import { describe, expect, it } from 'vitest';
import type { Json } from '../settings/fields.ts';
import {
  constantsIn,
  inMode,
  jsonOf,
  NO_PATH,
  partsOf,
  type ValueMode,
  valueDraftOf,
  valueFaults,
} from './value-draft.ts';

const A = { '@path': '$.a' };
const B = { '@path': '$.b' };

// biome-ignore-start lint/suspicious/noThenProperty: a member of a directive of Segment's mapping kit
const VALUES: readonly (readonly [ValueMode, Json])[] = [
  ['json', null],
  ['literal', ''],
  ['literal', 'text'],
  ['literal', 0],
  ['literal', true],
  ['literal', []],
  ['literal', ['a', 'b']],
  ['json', [1, 'b']],
  ['json', [A]],
  ['object', {}],
  ['path', A],
  ['json', { ...A, _metadata: { label: 'A' } }],
  ['json', { '@path': A }],
  ['json', { '@path': '$.a', '@template': '{{a}}' }],
  ['template', { '@template': '{{a}}' }],
  ['first', { '@if': { exists: A, then: A } }],
  ['first', { '@if': { exists: A, then: A, else: 'none' } }],
  ['first', { '@if': { exists: A, then: A, else: { '@if': { exists: B, then: B, else: 0 } } } }],
  ['first', { '@if': { exists: A, then: A, else: { '@if': { exists: B, then: B } } } }],
  ['json', { '@if': { then: A, exists: A } }],
  ['json', { '@if': { exists: A, then: A, more: 1 } }],
  ['json', { '@if': { exists: A, blank: B, then: 1 } }],
  ['json', { '@if': A }],
  ['condition', { '@if': { exists: A, then: 1, else: null } }],
  ['condition', { '@if': { blank: A, then: A, else: B } }],
  ['condition', { '@if': { exists: A, else: B } }],
  ['items', { '@arrayPath': ['$.products', { id: A, list: { '@arrayPath': ['$.x', {}] } }] }],
  ['json', { '@arrayPath': ['$.products'] }],
  ['json', { '@arrayPath': [A, { id: A }] }],
  ['json', { '@arrayPath': ['$.products', A] }],
  ['json', { '@arrayPath': ['$.products', {}, 1] }],
  ['converted', { '@case': { operator: 'lower', value: A } }],
  ['converted', { '@case': { value: A, operator: 'upper' } }],
  ['json', { '@case': { operator: 'title', value: A } }],
  ['json', { '@case': { operator: 'lower' } }],
  [
    'converted',
    { '@replace': { pattern: '-', replacement: '', value: { '@case': { operator: 'lower', value: A } } } },
  ],
  ['json', { '@replace': { pattern: '-', value: A } }],
  ['json', { '@replace': { pattern: '-', replacement: '', global: false, value: A } }],
  ['converted', { '@json': { mode: 'encode', value: A } }],
  ['converted', { '@flatten': { separator: '.', value: {} } }],
  ['json', { '@flatten': { separator: '.', omitArrays: true, value: A } }],
  ['json', { '@merge': { direction: 'left', objects: [A, B] } }],
  ['json', { '@transform': { apply: {}, mapping: {} } }],
  ['json', { '@excludeWhenNull': A }],
  ['json', { '@liquid': '{{ a }}' }],
  ['json', { '@literal': true }],
  ['json', { '@toString': A }],
  ['object', { a: A, b: { c: null, 'd/e~f': ['x'] }, '1': { '@unknown': 1 } }],
  ['object', JSON.parse('{"__proto__": {"@path": "$.a"}, "constructor": 1}') as Json],
];
// biome-ignore-end lint/suspicious/noThenProperty: a member of a directive of Segment's mapping kit

describe.each(VALUES.map(([mode, value]) => [JSON.stringify(value), mode, value] as const))(
  '%s',
  (text, mode, value) => {
    it(`is edited as ${mode}, and sent as it was`, () => {
      const draft = valueDraftOf(value);
      expect(draft.mode).toBe(mode);
      expect(JSON.stringify(jsonOf(draft))).toBe(text);
      expect(JSON.stringify(jsonOf(inMode(draft, 'json')))).toBe(text);
      expect(valueDraftOf(jsonOf(inMode(draft, 'json')))).toEqual(draft);
    });

    it('has its parts at their places', () => {
      for (const [path, part] of partsOf(valueDraftOf(value))) {
        const at = path
          .split('/')
          .slice(1)
          .reduce<unknown>(
            (from, key) => Object(from)[key.replaceAll('~1', '/').replaceAll('~0', '~')],
            value,
          );
        expect(jsonOf(part)).toEqual(at);
      }
    });
  },
);
it('keeps what another way of editing can hold', () => {
  expect(inMode(valueDraftOf({ '@path': '$.a.b' }), 'template')).toEqual({
    mode: 'template',
    text: '{{a.b}}',
  });
  expect(inMode(valueDraftOf({ '@template': '{{ a.b }}' }), 'path')).toEqual({ mode: 'path', text: '$.a.b' });
  expect(inMode({ mode: 'json', text: '{"a": 1}' }, 'object')).toEqual(valueDraftOf({ a: 1 }));
  expect(jsonOf(inMode(valueDraftOf('x'), 'none'))).toBeUndefined();
  const first = inMode(valueDraftOf(A), 'first');
  expect(first).toMatchObject({ items: [valueDraftOf(A), NO_PATH] });
  expect(inMode(first, 'path')).toEqual(valueDraftOf(A));
  expect(jsonOf(inMode(valueDraftOf(A), 'converted'))).toEqual({ '@case': { operator: 'lower', value: A } });
  expect(jsonOf(inMode(valueDraftOf(A), 'items'))).toEqual({ '@arrayPath': ['$.a', {}] });
});

it('has the values that are the same for each event', () => {
  const mapping = valueDraftOf({
    id: 1,
    list: ['a'],
    path: A,
    made: { outputs: { id: '7' } },
    part: { a: A },
  });
  expect(mapping.mode === 'object' && constantsIn(mapping, '/id')).toEqual({
    list: ['a'],
    made: { outputs: { id: '7' } },
  });
});

it('names the place of JSON that is none', () => {
  const draft = {
    mode: 'object',
    members: {
      'a/b': { mode: 'json', text: '{' },
      c: inMode(inMode(NO_PATH, 'condition'), 'first'),
    },
  } as const;
  expect(valueFaults(draft)).toEqual([
    { path: '/a~1b', message: 'is not valid JSON' },
    { path: '/c/@if/then/@if/exists', message: 'must name a field' },
    { path: '/c/@if/else', message: 'must name a field' },
  ]);
});
