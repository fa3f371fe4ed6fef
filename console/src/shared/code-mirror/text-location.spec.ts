import { Text } from '@codemirror/state';
import { describe, expect, it } from 'vitest';
import { rangeOf } from './text-location.ts';

const CODE = Text.of(['function transform(event) {', '  total = 1;', '}']);
const JSON_TEXT = JSON.stringify({ a: { 'b/c': [{ d: 1 }, true] }, e: null }, null, 2);

function at(pointer: string): string {
  const { from, to } = rangeOf(Text.of(JSON_TEXT.split('\n')), { pointer });
  return JSON_TEXT.slice(from, to);
}

describe('a location in a text', () => {
  it('is the word at a line and column, and the line where there is no column', () => {
    const text = CODE.toString();
    const of = (line: number, column?: number) => {
      const { from, to } = rangeOf(CODE, { line, column });
      return text.slice(from, to);
    };
    expect(of(2, 3)).toBe('total');
    expect(of(2)).toBe('  total = 1;');
    expect(of(2, 900)).toBe('');
    expect(of(99, 1)).toBe('}');
  });

  it('is the name that a JSON pointer names, or the nearest that is there', () => {
    expect(at('/a')).toBe('"a"');
    expect(at('/a/b~1c')).toBe('"b/c"');
    expect(at('/a/b~1c/0/d')).toBe('"d"');
    expect(at('/a/b~1c/1')).toBe('true');
    expect(at('/a/b~1c/7')).toBe('"b/c"');
    expect(at('/a/gone/deep')).toBe('"a"');
    expect(at('')).toBe('{');
  });

  it('is found in a text that is no JSON yet', () => {
    const broken = '{"a": {"b": ';
    expect(rangeOf(Text.of([broken]), { pointer: '/a/b' })).toEqual({ from: 7, to: 10 });
    expect(rangeOf(Text.of(['']), { pointer: '/a' })).toEqual({ from: 0, to: 0 });
  });
});
