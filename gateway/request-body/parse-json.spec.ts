import { describe, expect, it } from 'vitest';
import { MAX_DEPTH, parseJson } from './parse-json.ts';

const parse = (text: string) => parseJson(Buffer.from(text));
/** `path`: the position in the text. */
const refused = (message: string, path = expect.any(String)) => ({ ok: false, faults: [{ path, message }] });

describe('parseJson', () => {
  it('accepts JSON of any layout', () => {
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
      for (const form of ['exact', 'items'] as const)
        expect(parseJson(Buffer.from(text), form)).toEqual(refused('holds half of a surrogate pair'));
    },
  );

  it.each([
    ['a whole pair', String.raw`{"a":"\ud83d\ude00"}`, { a: '😀' }],
    ['a pair that is no escape', '{"a":"😀"}', { a: '😀' }],
    ['an escaped backslash', String.raw`{"a":"\\ud800"}`, { a: String.raw`\ud800` }],
    ['a neighbour of the surrogates', String.raw`{"a":"\ud7ff\ue000"}`, { a: '\ud7ff\ue000' }],
  ])('accepts %s', (_, text, value) => {
    expect(parse(text)).toEqual({ ok: true, value });
  });

  it.each(['1e999', '{"a":-1e400}', `[${'9'.repeat(400)}]`])(
    'refuses a number that would become null',
    (text) => {
      expect(parse(text)).toEqual(refused('holds a number that is too large'));
    },
  );

  it('accepts the largest number that exists', () => {
    expect(parse('1.7976931348623157e308')).toEqual({ ok: true, value: Number.MAX_VALUE });
  });

  it('refuses one level of nesting too many, before anything recurses', () => {
    const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
    expect(parse(nested(MAX_DEPTH)).ok).toBe(true);
    expect(parse(nested(MAX_DEPTH + 1))).toEqual(refused(`is nested more than ${MAX_DEPTH} levels deep`));
    expect(parse(nested(100_000).replace(']', String.raw`"\ud800"]`)).ok).toBe(false);
  });

  it.each([
    ['a key given twice', '{"a":{"k":1,"k":2}}', '/a/k', 'holds the same key twice in one object'],
    ['__proto__', '{"a":[{"__proto__":{"b":1}}]}', '/a/0/__proto__', 'holds the key __proto__'],
    ['an escaped __proto__', '{"\\u005f_proto__":1}', '/__proto__', 'holds the key __proto__'],
  ])('states where the body holds %s', (_, text, path, message) => {
    expect(parse(text)).toEqual(refused(message, path));
  });

  it('finds nothing else than JSON.parse in a text without faults that is read character by character', () => {
    const value = { 'a/b~c': [1, -2.5e-7, 'x"\\😀\n', {}, [], null, true, false], n: { '': { z: 0 } } };
    const text = `${JSON.stringify(value, null, '\t').slice(0, -1)}, "big": 20000000000000003 }`;
    const parsed = parseJson(Buffer.from(text), 'exact');
    expect(parsed).toMatchObject({ ok: true, read: { faults: [] } });
    expect(JSON.stringify(parsed.ok && parsed.value)).toBe(
      JSON.stringify(value).replace(/\}$/, ',"big":20000000000000003}'),
    );
  });
});

describe('a body with items', () => {
  const items = (...texts: readonly string[]) =>
    parseJson(Buffer.from(`{"batch":[${texts.join(',')}]}`, 'latin1'), 'items');

  it('has numbers of many digits from a depth on in it, and doubles before', () => {
    const text = '{"batch":[8172635445362718291,{"a":8172635445362718291,"b":{"c":8172635445362718291}}]}';
    const parsed = parseJson(Buffer.from(text), 'items', 2);
    const double = Number('8172635445362718291');
    expect(parsed.ok && parsed.value).toEqual({
      batch: [double, { a: double, b: { c: JSON.rawJSON('8172635445362718291') } }],
    });
    expect(parseJson(Buffer.from('8172635445362718291'), 'exact', 1)).toMatchObject({ value: double });
  });

  it('lets an item be as deep as it may be alone', () => {
    const parsed = items(`{"p":${'['.repeat(63)}${']'.repeat(63)}}`);
    expect(parsed.ok && parsed.read?.itemFaults.size).toBe(0);
  });
});

describe('a body of a sender that cannot react', () => {
  const taken = (text: string) => {
    const parsed = parseJson(Buffer.from(text, 'latin1'), 'tolerant');
    return parsed.ok ? parsed.value : parsed;
  };

  it('is taken with all of it that can be read', () => {
    expect(taken(String.raw`{"a":"x\ud812","b\udc34":1}`)).toEqual({ a: 'x\ufffd', 'b\ufffd': 1 });
    expect(taken('{"k":1,"m":2,"k":3}')).toEqual({ k: 3, m: 2 });
    expect(taken('{"a":{"__proto__":{"polluted":1},"b":1}}')).toEqual({ a: { b: 1 } });
    expect(taken('{"n":1e1234,"m":-1e400}')).toEqual({ n: '1e1234', m: '-1e400' });
    expect(taken('{"name":"caf\xe9"}')).toEqual({ name: 'caf\ufffd' });
    const inner = String.raw`{"k": "}\" ","l":[[]]}`;
    const deep = taken(`${'['.repeat(64)}${inner}${']'.repeat(64)}`);
    expect((deep as unknown[]).flat(Number.POSITIVE_INFINITY)).toEqual([inner]);
  });

  it('is refused when it is no JSON at all', () => {
    expect(taken('{"a":')).toMatchObject({ ok: false });
  });

  it('costs no more memory for a hundred thousand faults', () => {
    const parsed = parseJson(Buffer.from(`[${'{"k":1,"k":2},'.repeat(100_000)}1]`), 'tolerant');
    expect(parsed.ok && parsed.read?.faults.length).toBe(20);
  });
});
