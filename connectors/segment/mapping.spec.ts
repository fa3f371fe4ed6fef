import type { ActionField, DestinationAction, JsonObject } from '@tributary/core';
import { describe, expect, it, test } from 'vitest';
import { mappingFaults } from './mapping.ts';

const field = (name: string, type: string, more: Partial<ActionField> = {}): ActionField => ({
  field: name,
  label: name,
  type,
  ...more,
});

const ACTION: DestinationAction = {
  action: 'send',
  title: 'Send',
  description: '',
  sync_modes: ['add', 'delete'],
  fields: [
    field('id', 'string', { required: true }),
    field('count', 'integer'),
    field('price', 'number'),
    field('at', 'datetime'),
    field('is_new', 'boolean'),
    field('kind', 'string', {
      choices: [
        { value: 'a', label: 'A' },
        { value: 'b', label: 'B' },
      ],
    }),
    field('tags', 'string', { multiple: true }),
    field('who', 'object', { fields: [field('email', 'string', { required: true })] }),
    field('reason', 'string', {
      required_if: { match: 'all', conditions: [{ field: 'kind', operator: 'is', value: 'b' }] },
    }),
  ],
};

const faultsOf = (mapping: JsonObject) =>
  mappingFaults(ACTION, { id: 'x', ...mapping }).map(({ path, message }) => `${path} ${message}`);

const path = (text: string) => ({ '@path': text });

describe('a mapping that runs', () => {
  test.each<[string, JsonObject]>([
    ['a path', { count: path('$.properties.count') }],
    ['values that the schemas convert', { count: '7', price: '1e5', is_new: 'true', at: 1_700_000_000 }],
    ['values that are falsy', { count: 0, is_new: false, tags: [] }],
    [
      'a list, a value for a list, and a list of one for a value',
      { tags: ['a', path('$.event')], kind: ['a'] },
    ],
    ['null and an empty text, which are dropped', { kind: null, reason: '' }],
    ['an object with directives', { who: { email: path('$.traits.email') } }],
    ['a literal', { kind: { '@literal': 'b' }, reason: 'why' }],
    ['a condition that depends on the event', { kind: path('$.properties.kind') }],
    // biome-ignore lint/suspicious/noThenProperty: a member of a directive
    ['@if', { kind: { '@if': { exists: path('$.userId'), then: path('$.userId'), else: 'none' } } }],
    ['@if by blank', { kind: { '@if': { blank: path('$.userId'), else: 'none' } } }],
    ['@template', { kind: { '@template': '{{userId}}' } }],
    ['@case', { kind: { '@case': { operator: 'lower', value: path('$.event') } } }],
    [
      '@replace',
      { kind: { '@replace': { pattern: 'a', replacement: '', value: path('$.event'), global: false } } },
    ],
    ['@arrayPath', { who: { '@arrayPath': ['$.properties.products', { email: path('$.email') }] } }],
    ['@json', { kind: { '@json': { mode: 'encode', value: path('$.properties') } } }],
    ['@flatten', { who: { '@flatten': { separator: '.', value: path('$.properties'), omitArrays: true } } }],
    ['@merge', { who: { '@merge': { direction: 'right', objects: [path('$.traits'), { a: 1 }] } } }],
    ['@transform', { who: { '@transform': { apply: { a: path('$.b') }, mapping: path('$.a') } } }],
    ['@excludeWhenNull', { who: { '@excludeWhenNull': path('$.traits') } }],
    ['@liquid', { kind: { '@liquid': '{{ event | upcase }}' } }],
    ['a note of the editor', { kind: { '@path': '$.event', _metadata: { label: 'Event' } } }],
    ['a mode', { __segment_internal_sync_mode: 'add' }],
  ])('%s', (_, mapping) => {
    expect(faultsOf(mapping)).toEqual([]);
  });
});

describe('a mapping that cannot run is refused with the place', () => {
  test.each<[string, JsonObject, string]>([
    ['an unknown field', { colour: 'red' }, '/colour is no field of the action send'],
    ['an unknown directive', { kind: { '@upper': 'a' } }, '/kind/@upper is no directive'],
    ['one below a list', { tags: ['a', { '@lower': 'b' }] }, '/tags/1/@lower is no directive'],
    [
      'two directives',
      { kind: { '@path': '$.a', '@template': 'b' } },
      '/kind must have no member beside @path',
    ],
    ['a path that is none', { kind: { '@path': 7 } }, '/kind/@path must be a text'],
    ['@if without a condition', { kind: { '@if': { else: 'x' } } }, '/kind/@if must have exists or blank'],
    [
      '@case of a third kind',
      { kind: { '@case': { operator: 'title' } } },
      '/kind/@case/operator must be lower',
    ],
    [
      '@replace of much',
      { kind: { '@replace': { pattern: 'a'.repeat(11), value: 'b' } } },
      '/kind/@replace/pattern',
    ],
    ['@json without a mode', { kind: { '@json': { value: 'x' } } }, '/kind/@json must have mode'],
    [
      '@merge of a text',
      { who: { '@merge': { direction: 'left', objects: ['a'] } } },
      '/who/@merge/objects/0 must be an',
    ],
    ['@liquid with a loop', { kind: { '@liquid': '{% for a in b %}' } }, '/kind/@liquid must not use'],
    [
      'a directive in the argument of another',
      { kind: { '@literal': { '@none': 1 } } },
      '/kind/@literal/@none is no',
    ],
    ['an absent field that is required', { id: '' }, '/id is required'],
    ['one of an object', { who: { name: 'Ann' } }, '/who/email is required'],
    ['one that another value requires', { kind: 'b' }, '/reason is required'],
    ['a text for a number', { count: 'many' }, '/count must be a whole number'],
    ['a part for a whole number', { count: 1.5 }, '/count must be a whole number'],
    ['an object for a text', { kind: { a: 1 } }, '/kind must be a text'],
    ['a text for an object', { who: 'Ann' }, '/who must be an object'],
    ['a text for a flag', { is_new: 'maybe' }, '/is_new must be true or false'],
    ['a text for a time', { at: 'soon' }, '/at must be a time'],
    ['a value that is no choice', { kind: { '@literal': 'c' } }, '/kind must be one of a, b'],
    [
      'a mode of another action',
      { __segment_internal_sync_mode: 'mirror' },
      '/__segment_internal_sync_mode must be',
    ],
    ['a name with a slash', { 'a/b~c': 1 }, '/a~1b~0c is no field'],
  ])('%s', (_, mapping, expected) => {
    const faults = faultsOf(mapping);
    expect(faults).toHaveLength(1);
    expect(faults[0]?.startsWith(expected), faults[0]).toBe(true);
  });
});

it('a member that is called __proto__ was none, so that what is in it was not checked', () => {
  const mapping = JSON.parse(
    '{"id":"x","__proto__":{"@none":1},"who":{"email":"a","__proto__":{"@none":1}}}',
  );
  expect(mappingFaults(ACTION, mapping).map(({ path }) => path)).toEqual(['/__proto__']);
  const { who } = mapping as { who: JsonObject };
  expect(mappingFaults(ACTION, { id: 'x', who }).map(({ path }) => path)).toEqual(['/who/__proto__/@none']);
});

it('a name that every object inherits is no field', () => {
  const inherited = ['constructor', 'toString', 'hasOwnProperty'];
  for (const name of inherited)
    expect(faultsOf({ [name]: 'x' })).toEqual([`/${name} is no field of the action send`]);
});
