import { describe, expect, it } from 'vitest';
import { exactNumber, mayLoseDigits, mayUnderflow, parseExact, withDigitsOf } from './json.ts';

const rewritten = (text: string) => JSON.stringify(parseExact(text));

describe('a number that a double cannot hold', () => {
  it.each([
    ...'9007199254740993 -7295436012854321987 98765432109876543210 0.9876543210987654321'.split(' '),
    ...'12345678.1234567890123 1.000000000000000000001e5 5.4321e-320 3e-400'.split(' '),
    `1${'0'.repeat(30)}1`,
  ])('keeps its digits: %s', (number) => {
    const text = `{"a":[${number}],"b":${number}}`;
    expect(rewritten(text)).toBe(text);
  });

  it.each([
    ['9007199254740992', '9007199254740992'],
    ['100000000000000000000000', '1e+23'],
    ['0.1000000000000000', '0.1'],
    ['1234567890123456e-10', '123456.7890123456'],
    ['-0.0000000000000000', '0'],
    ['0e-400', '0'],
  ])('is not found where the double is equal: %s', (number, written) => {
    expect(typeof exactNumber(number)).toBe('number');
    expect(rewritten(`[${number}]`)).toBe(`[${written}]`);
  });

  it.each(['1e309', '-9e9999', `${'8'.repeat(310)}`, '1e-16001', '1e-99999999999'])(
    'is out of range: %.20s',
    (number) => {
      expect(exactNumber(number)).toBeUndefined();
    },
  );

  it('is found at every place of a text', () => {
    for (let before = 0; before < 40; before++) {
      const lead = `{"${'k'.repeat(before)}":`;
      expect(mayLoseDigits(`${lead}1.23456789012345}`), lead).toBe(true);
      expect(mayLoseDigits(`${lead}-1234567890123456`), lead).toBe(true);
      expect(mayLoseDigits(`${lead}123456789012345,2}`), lead).toBe(false);
    }
  });

  it('is looked for where a number may stand alone, not in texts', () => {
    expect(mayLoseDigits('{"cookie":"GA1.2.1234567890.1697472000","id":"1234567890123456789"}')).toBe(false);
    expect(mayLoseDigits('{"id": 1234567890123456789}')).toBe(true);
    expect(mayLoseDigits('[1,-1234567890123456789]')).toBe(true);
  });
});

describe('the output of code that read doubles', () => {
  const source = parseExact('{"p":{"id":7295436012854321987,"n":3,"tiny":1e-400},"q":[7295436012854321987]}');
  const restored = (made: unknown) => JSON.stringify(withDigitsOf(made, source));

  it('has the digits of its source, in their place and elsewhere', () => {
    const made = JSON.parse(JSON.stringify(source));
    expect(restored(made)).toBe(JSON.stringify(source));
    expect(restored({ other: [made.p.id], n: 3 })).toBe('{"other":[7295436012854321987],"n":3}');
  });

  it('has its own numbers where they are others', () => {
    const made = { p: { id: Number('7295436012854321987') + 4096, tiny: 0 }, zero: 0 };
    expect(restored(made)).toBe('{"p":{"id":7295436012854326000,"tiny":1e-400},"zero":0}');
  });

  it('has a double where two numbers of the source have the same one', () => {
    const two = parseExact('{"a":7295436012854321987,"b":7295436012854321988}');
    expect(JSON.stringify(withDigitsOf(JSON.parse(JSON.stringify(two)), two))).toBe(JSON.stringify(two));
    expect(JSON.stringify(withDigitsOf({ c: Number('7295436012854321987') }, two))).toBe(
      '{"c":7295436012854322000}',
    );
  });
});

it.each([
  ['{"id":"7b1c3d2e-610e-4012-9c0e-123456789abc"}', false],
  ['{"id":"5e-3104"}', false],
  ['{"n":2.5e-310}', true],
  ['[1,-7E-312]', true],
  ['4e-320', true],
])('an id with an e in it made a text slow to read: %s', (text, may) => {
  expect(mayUnderflow(text)).toBe(may);
});
