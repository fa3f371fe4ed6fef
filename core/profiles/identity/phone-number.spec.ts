import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseIdentity } from './identity.ts';
import { canonicalPhone, formerPhones, isPhoneCountry, isSameNumber } from './phone-number.ts';

describe('a telephone number was another identity', () => {
  it.each([
    ['with blanks', '+43 664 123 4567'],
    ['with dashes and a bracket', '(+43)-664-1234567'],
    ['with the zero that is dialled inside of its country', '+43 (0)664/1234567'],
    ['with 00 in place of +', '0043 664 1234567'],
    ['as a link', 'tel:+43-664-1234567'],
    ['between bidirectional marks', '\u202a+43 664 1234567\u202c'],
    ['with blanks that do not break', '+43\u00a0664\u00a01234567'],
    ['with dashes that do not break', '+43\u2011664\u20111234567'],
    [
      'in full-width digits',
      '\uff0b\uff14\uff13\uff16\uff16\uff14\uff11\uff12\uff13\uff14\uff15\uff16\uff17',
    ],
    ['in Arabic digits', '+\u0664\u0663\u0666\u0666\u0664\u0661\u0662\u0663\u0664\u0665\u0666\u0667'],
  ])('%s', (_, spelling) => {
    expect(canonicalPhone(spelling, undefined)).toBe('+436641234567');
    expect(normaliseIdentity('cellphone', spelling)).toEqual({
      kind: 'identity',
      identity: { type: 'cellphone', value: '+436641234567' },
    });
  });

  it('without its country, though the organization has one', () => {
    const local = '0664 / 123 45 67';
    expect(canonicalPhone(local, 'AT')).toBe('+436641234567');
    expect(normaliseIdentity('phone', local)).toMatchObject({ identity: { value: local } });
    expect(canonicalPhone('011 43 664 1234567', 'US')).toBe('+436641234567');
  });

  it('or changed once more when it was read again', () => {
    const country = fc.constantFrom('AT', 'US', 'IT', 'AR', 'MX', 'RU', 'GB', undefined);
    const digits = fc.stringMatching(/^\+?[0-9]{4,16}$/);
    fc.assert(
      fc.property(digits, country, (text, home) => {
        const once = canonicalPhone(text, home);
        if (once !== undefined) expect(canonicalPhone(once, home)).toBe(once);
      }),
      {
        numRuns: 500,
        examples: [
          ['+4400000000010', 'AT'],
          ['004400000000070', undefined],
        ],
      },
    );
  });
});

it.each([
  ['an extension is another person at the number', '+1 212 555 0123 ext. 7'],
  ['as it is in a link', 'tel:+1-212-555-0123;ext=7'],
  ['letters', '+1 800 FLOWERS'],
  ['a country that there is none of', '+999 123 4567'],
  ['no country', '0664 1234567'],
  ['an id', '4711'],
  ['several numbers', '+43 664 1234567, +43 664 7654321'],
  ['no number', 'call me'],
])('a value that cannot be read stays as it is: %s', (_, value) => {
  expect(canonicalPhone(value, undefined)).toBeUndefined();
  expect(normaliseIdentity('cellphone', ` ${value}\t`)).toMatchObject({ identity: { value } });
});

it('a number may have been stored without its country where that is the organization\u2019s', () => {
  const home = formerPhones('+436641234567', 'AT');
  expect(home).toContain('06641234567');
  expect(home).toContain('+43 664 1234567');
  expect(formerPhones('+436641234567', 'DE')).not.toContain('06641234567');
  expect(isSameNumber('0664 1234567', '+436641234567')).toBe(true);
  expect(isSameNumber('0664 7654321', '+436641234567')).toBe(false);
});

it('knows countries by their code in capitals', () => {
  expect(['AT', 'BR', 'at', 'XX', ''].map(isPhoneCountry)).toEqual([true, true, false, false, false]);
});
