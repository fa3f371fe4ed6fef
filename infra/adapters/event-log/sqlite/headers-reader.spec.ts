import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { HeadersReader } from './topic-group-reader.ts';

const alike = (id: string, type = 'track') => ({ 'catalog-position': '7', 'message-id': id, type });

/** The headers read back from their JSON, and the number of calls of `JSON.parse`. */
function readAll(all: readonly object[]) {
  const reader = new HeadersReader();
  const texts = all.map((headers) => JSON.stringify(headers));
  const parse = vi.spyOn(JSON, 'parse');
  const read = texts.map((text) => reader.read(text));
  const parsed = parse.mock.calls.length;
  parse.mockRestore();
  return { read, parsed };
}

describe('headers reader', () => {
  it('reads texts of a known form without parsing', () => {
    const all = Array.from({ length: 100 }, (_, n) => alike(`m${n}`, n % 10 === 0 ? 'page' : 'track'));
    const { read, parsed } = readAll(all);
    expect(read).toEqual(all);
    expect(parsed).toBeLessThan(5);
  });

  it('refuses truncated texts', () => {
    const reader = new HeadersReader();
    const [whole, other] = [JSON.stringify(alike('a')), JSON.stringify(alike('b'))];
    for (const text of [whole, other]) reader.read(text);
    for (let length = 0; length < whole.length; length++)
      expect(() => reader.read(whole.slice(0, length))).toThrow(SyntaxError);
  });

  it('returns what JSON.parse returns, for any texts in any order', () => {
    const value = fc.oneof(fc.constantFrom('', 'a', '"', '\\', ',"b":"', 'é', '😀', '\n'), fc.string());
    const name = fc.constantFrom('a', 'b', '__proto__', '1', 'quo"te');
    const headers = fc.dictionary(name, value, { maxKeys: 4 });
    fc.assert(
      fc.property(fc.array(headers, { maxLength: 30 }), (all) => {
        const reader = new HeadersReader();
        for (const one of all) {
          const text = JSON.stringify(one);
          expect(JSON.stringify(reader.read(text))).toBe(text);
        }
      }),
    );
  });
});
