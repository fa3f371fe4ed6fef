import { expect, it } from 'vitest';
import type { Json } from '../settings/fields.ts';
import { inMode, jsonOf, valueDraftOf, valueFaults } from './value-draft.ts';

const VALUES: readonly Json[] = [
  null,
  '',
  'text',
  0,
  true,
  [],
  ['a', 'b'],
  [1, 'b'],
  {},
  { '@path': '$.a' },
  { '@path': '$.a', _metadata: { label: 'A' } },
  { '@path': { '@path': '$.a' } },
  { '@template': '{{a}}' },
  // biome-ignore lint/suspicious/noThenProperty: a member of a directive of Segment's mapping kit
  { '@if': { exists: { '@path': '$.a' }, then: 1, else: null } },
  { '@arrayPath': ['$.products', { id: { '@path': '$.id' } }] },
  {
    a: { '@path': '$.a' },
    b: { c: null, 'd/e~f': ['x'] },
    '1': { '@flatten': { separator: '.', value: {} } },
  },
  JSON.parse('{"__proto__": {"@path": "$.a"}, "constructor": 1}') as Json,
];

it.each(VALUES.map((value) => [JSON.stringify(value), value] as const))(
  '%s is sent as it was',
  (text, value) => {
    expect(JSON.stringify(jsonOf(valueDraftOf(value)))).toBe(text);
    expect(JSON.stringify(jsonOf(inMode(valueDraftOf(value), 'json')))).toBe(text);
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
});

it('names the place of JSON that is none', () => {
  const draft = {
    mode: 'object',
    members: { 'a/b': { mode: 'json', text: '{' }, c: { mode: 'path', text: ' ' } },
  } as const;
  expect(valueFaults(draft)).toEqual([
    { path: '/a~1b', message: 'is not valid JSON' },
    { path: '/c', message: 'must name a field' },
  ]);
});
