import { describe, expect, it } from 'vitest';
import { merged } from './catalog-entities.ts';

describe('a merge patch', () => {
  // The examples of RFC 7396, appendix A.
  it.each([
    [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
    [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
    [{ a: 'b' }, { a: null }, {}],
    [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
    [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
    [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
    [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
    [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
    [
      ['a', 'b'],
      ['c', 'd'],
      ['c', 'd'],
    ],
    [{ a: 'b' }, ['c'], ['c']],
    [{ a: 'foo' }, null, null],
    [{ a: 'foo' }, 'bar', 'bar'],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [[1, 2], { a: 'b', c: null }, { a: 'b' }],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ])('of %j by %j is %j', (stored, patch, result) => {
    expect(merged(stored, patch)).toEqual(result);
  });

  it('changes neither of them, and no prototype', () => {
    const [stored, patch] = [{ a: { b: 1 } }, JSON.parse('{"a":{"c":2},"__proto__":{"x":1}}')];
    const result = merged(stored, patch) as Record<string, unknown>;
    expect(result.a).toEqual({ b: 1, c: 2 });
    expect(Object.getPrototypeOf(result)).toBe(Object.prototype);
    expect(Object.hasOwn(result, '__proto__')).toBe(true);
    expect(stored).toEqual({ a: { b: 1 } });
  });

  it('keeps the digits of a number', () => {
    const exact = JSON.rawJSON('1.00000000000000000001');
    expect(JSON.stringify(merged({ a: { b: 1 } }, { a: exact }))).toBe('{"a":1.00000000000000000001}');
  });
});
