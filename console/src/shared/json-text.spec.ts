import { describe, expect, it } from 'vitest';
import { inOrderOf, jsonTextOf } from './json-text.ts';

const EVENT = {
  type: 'track',
  properties: { total: 12.5, 'a/b': { '~c': null }, items: [{ sku: 'x' }, []], nothing: {}, text: 'a\n"b"' },
};

describe('JSON as text', () => {
  it.each([EVENT, [], {}, null, 'text', [1, [2, { three: [] }]], { left: undefined, out: 1 }])(
    'is written as JSON.stringify writes it: %j',
    (value) => {
      expect(jsonTextOf(value).text).toBe(JSON.stringify(value, null, 2));
    },
  );

  it.each([
    ['/type', '"type": "track"'],
    ['/properties/total', '"total": 12.5'],
    ['/properties/a~1b/~0c', '"~c": null'],
    ['/properties/items/0/sku', '"sku": "x"'],
    ['/properties/items/1', '[]'],
  ])('knows the line of %s', (pointer, line) => {
    const { text, lineOf } = jsonTextOf(EVENT);
    expect(text.split('\n')[lineOf(pointer) - 1]).toContain(line);
  });

  it('names the line of the object around a missing value', () => {
    const { text, lineOf } = jsonTextOf(EVENT);
    const lineAt = (pointer: string) => text.split('\n')[lineOf(pointer) - 1]?.trim();
    expect(lineAt('/properties/missing')).toBe('"properties": {');
    expect(lineAt('/properties/items/7/sku')).toBe('"items": [');
    expect(lineAt('/elsewhere')).toBe('{');
    expect(lineAt('')).toBe('{');
    expect(lineAt('no pointer')).toBe('{');
  });
});

describe('the order of members', () => {
  it('follows the model, with new members last', () => {
    const value = { added: 1, b: { y: 1, x: 2 }, a: [{ q: 1, p: 2 }] };
    const model = { a: [{ p: 0, q: 0 }], gone: 0, b: { x: 0, y: 0 } };
    const ordered = inOrderOf(value, model);
    expect(JSON.stringify(ordered)).toBe('{"a":[{"p":2,"q":1}],"b":{"x":2,"y":1},"added":1}');
    expect(ordered).toEqual(value);
  });
});
