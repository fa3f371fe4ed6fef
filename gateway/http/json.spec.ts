import { describe, expect, it } from 'vitest';
import { parseJson } from './json.ts';
import { MAX_DEPTH } from './tolerant-json.ts';

const parse = (text: string) => parseJson(Buffer.from(text));
const refused = (message: string) => ({ ok: false, fault: { path: '', message } });

describe('parseJson', () => {
  it('takes JSON as it stands', () => {
    const value = { a: [1, null, { b: 'ü "quoted": text\\' }], 'c:d': true };
    expect(parse(JSON.stringify(value))).toEqual({ ok: true, value });
  });

  it.each([
    ['as a value', String.raw`{"message_id":"\ud800"}`],
    ['in capitals', String.raw`{"message_id":"\uDFFF"}`],
    ['in a list', String.raw`{"a":[1,["x\udc00y"]]}`],
    ['as a key', String.raw`{"a":{"\ud83d":1}}`],
    ['the wrong way round', String.raw`["\udc00\ud800"]`],
    ['alone', String.raw`"\udbff"`],
  ])(
    'refuses half of a surrogate pair %s: in UTF-8 it would be the same text as any other half',
    (_, text) => {
      expect(parse(text)).toEqual(refused('holds half of a surrogate pair'));
    },
  );

  it.each([
    ['a whole pair', String.raw`{"a":"\ud83d\ude00"}`, { a: '😀' }],
    ['a pair that is no escape', '{"a":"😀"}', { a: '😀' }],
    ['an escaped backslash', String.raw`{"a":"\\ud800"}`, { a: String.raw`\ud800` }],
    ['a neighbour of the surrogates', String.raw`{"a":"\ud7ff\ue000"}`, { a: '\ud7ff\ue000' }],
  ])('takes %s', (_, text, value) => {
    expect(parse(text)).toEqual({ ok: true, value });
  });

  it.each(['1e999', '{"a":-1e400}', `[${'9'.repeat(400)}]`])(
    'refuses a number that would become null',
    (text) => {
      expect(parse(text)).toEqual(refused('holds a number that is too large'));
    },
  );

  it('takes the largest number there is', () => {
    expect(parse('1.7976931348623157e308')).toEqual({ ok: true, value: Number.MAX_VALUE });
  });

  it('refuses one level of nesting too many, before anything recurses', () => {
    const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
    expect(parse(nested(MAX_DEPTH)).ok).toBe(true);
    expect(parse(nested(MAX_DEPTH + 1))).toEqual(refused(`is nested more than ${MAX_DEPTH} levels deep`));
    expect(parse(nested(100_000).replace(']', String.raw`"\ud800"]`)).ok).toBe(false);
  });
});
