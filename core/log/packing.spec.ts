import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { pack, unpack } from './packing.ts';

describe('packing', () => {
  it('gives back the same texts, in order', () => {
    const texts = fc.array(
      fc.jsonValue().map((value) => JSON.stringify(value)),
      { minLength: 1 },
    );
    fc.assert(
      fc.property(texts, (values) => {
        expect(unpack(pack(values))).toEqual(values);
      }),
    );
  });

  it('keeps newlines inside of strings, and line separators that are no newline', () => {
    const values = ['{"a":"x\\ny"}', JSON.stringify('\u2028\u2029\u0085\r'), JSON.stringify('a\nb')];
    expect(unpack(pack(values))).toEqual(values);
  });

  it('leaves a single entry as it is', () => {
    expect(pack(['{}'])).toBe('{}');
    expect(unpack('{}')).toEqual(['{}']);
  });
});
