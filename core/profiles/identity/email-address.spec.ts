import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalAddress, formerAddresses, formerlyNormalisedAddress } from './email-address.ts';
import { normaliseIdentity } from './identity.ts';

const normalised = (value: string) => {
  const result = normaliseIdentity('email', value);
  return result.kind === 'identity' ? result.identity.value : result.fault;
};

describe('an address was another identity', () => {
  it.each([
    ['composed', 'ren\u00e9e@cafe.example', 'rene\u0301e@cafe.example'],
    ['with its domain in ASCII', 'lars@xn--strm-7qa.example', 'lars@str\u00f6m.example'],
    ['with its domain in capitals', 'lars@xn--strm-7qa.example', 'Lars@STR\u00d6M.Example'],
    ['with an ideographic full stop', 'lars@xn--strm-7qa.example', 'lars@str\u00f6m\u3002example'],
    ['with a zero-width space in it', 'max@mail.example', 'm\u200bax@ma\u200bil.example'],
    ['with a soft hyphen', 'max@mail.example', 'max@ma\u00adil.example'],
    ['between bidirectional marks', 'max@mail.example', '\u202amax@mail.example\u202c'],
    ['behind a byte order mark', 'max@mail.example', '\ufeffmax@mail.example'],
    ['with a joiner in it', 'max@mail.example', 'max@mail\u200d.example'],
    ['with a line end in it', 'max@mail.example', 'max@mail.\r\nexample'],
    ['as a link', 'max@mail.example', 'mailto:max@mail.example'],
    ['as a link with fields', 'max@mail.example', 'MailTo:max@mail.example?subject=Re:%20a@b&cc=x@y.example'],
    ['as an encoded link', 'max+1@mail.example', 'mailto:max%2B1%40mail.example'],
    ['encoded', 'max@mail.example', 'max%40mail.example'],
    ['as an encoded link in another normal form', 'ren\u00e9e@x.example', 'mailto:rene%CC%81e@x.example'],
    ['in angle brackets', 'max@mail.example', '<max@mail.example>'],
    ['behind a name', 'max@mail.example', '"Mustermann, Max" <Max@mail.example>'],
    ['in quotes', 'max@mail.example', "'max@mail.example'"],
    ['with a quoted local part', 'max@mail.example', '"max"@mail.example'],
    ['with blanks around it', 'max@mail.example', '\u00a0 max@mail.example\t'],
    ['with blanks around the at sign', 'max@mail.example', 'max @ mail.example'],
    ['with a dot at its end', 'max@mail.example', 'max@mail.example.'],
    ['with a semicolon at its end', 'max@mail.example', 'max@mail.example; '],
    [
      'in full-width letters',
      'max@mail.example',
      '\uff4d\uff41\uff58\uff20\uff4d\uff41\uff49\uff4c\uff0e\uff45xample',
    ],
    [
      'in Greek capitals',
      '\u03bc\u03ac\u03c1\u03ba\u03bf\u03c3@x.example',
      '\u039c\u0386\u03a1\u039a\u039f\u03a3@x.example',
    ],
    [
      'with a final sigma',
      '\u03bc\u03ac\u03c1\u03ba\u03bf\u03c3@x.example',
      '\u03bc\u03ac\u03c1\u03ba\u03bf\u03c2@x.example',
    ],
    ['in Cyrillic capitals', '\u0436\u0443\u043a@x.example', '\u0416\u0423\u041a@x.example'],
  ])('%s', (_, canonical, spelling) => {
    expect(normalised(canonical)).toBe(canonical);
    expect(normalised(spelling)).toBe(canonical);
  });

  it('in any combination of spellings', () => {
    const letters = fc.constantFrom(...'abzAB9+_', 'é', 'Ö', 'ß', 'ñ', 'Σ', 'σ', 'ж', 'Ж', '山');
    const local = fc.array(letters, { minLength: 1, maxLength: 8 }).map((all) => all.join(''));
    const domain = fc.constantFrom(
      'mail.example',
      'str\u00f6m.example',
      'xn--strm-7qa.example',
      '\u5c71.example',
    );
    const invisible = fc.constantFrom('', '\u200b', '\u2060', '\u202e', '\u00ad', '\ufeff', '\ufe0f');
    const form = fc.constantFrom('NFC' as const, 'NFD' as const);
    const around = fc.constantFrom<(address: string) => string>(
      (address) => address,
      (address) => ` ${address} `,
      (address) => `mailto:${encodeURIComponent(address)}?subject=x`,
      (address) => `Some Body <${address}>`,
      (address) => `${address}.`,
    );
    fc.assert(
      fc.property(local, domain, invisible, form, around, fc.nat(), (name, host, mark, as, wrap, nth) => {
        const address = `${name}@${host}`;
        const at = nth % address.length;
        const marked = `${address.slice(0, at)}${mark}${address.slice(at)}`.normalize(as);
        const canonical = normalised(address);
        // A mark between a letter and its accent is not among these: the letters are composed.
        expect(normalised(wrap(marked))).toBe(canonical);
        expect(normalised(canonical)).toBe(canonical);
      }),
    );
  });

  it('or changed once more when it was read again', () => {
    const parts = fc.constantFrom(' ', ...'mailto: < > " %40 % ? @ . ; K İ ͅ a é ＠'.split(' '));
    const value = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 12 }),
      fc.array(parts).map((all) => all.join('')),
    );
    fc.assert(
      fc.property(value, value, (left, right) => {
        for (const text of [left, `${left}@${right}`]) {
          const once = normaliseIdentity('email', text);
          if (once.kind === 'identity') expect(normaliseIdentity('email', once.identity.value)).toEqual(once);
        }
      }),
      { numRuns: 100 },
    );
  });
});

it.each([
  ['the Kelvin sign is not k', '\u212aim@x.example', 'kim@x.example'],
  ['the dotless i is not i', 'k\u0131m@x.example', 'kim@x.example'],
  ['a long s is not s', 'lo\u017f@x.example', 'los@x.example'],
  ['a sharp s is not ss', 'stra\u00dfe@x.example', 'strasse@x.example'],
  ['a superscript is no digit', 'x\u00b2@x.example', 'x2@x.example'],
  ['a ligature is not its letters', '\ufb01n@x.example', 'fin@x.example'],
  ['dots of a local part count', 'a.b@x.example', 'ab@x.example'],
  ['so do tags', 'a+1@x.example', 'a@x.example'],
])('two mailboxes stay two: %s', (_, one, other) => {
  expect(normalised(one)).not.toBe(normalised(other));
});

it.each([
  ...'a@b@c.example @x.example a@ mailto: a@x.example\nb@x.example'.split(' '),
  ...['No Address', 'x@y.example, z@y.example', 'a b@x.example', 'a@b c'],
])('a text that is not an address stays as it was written: %j', (value) => {
  expect(canonicalAddress(value)).toBeUndefined();
  expect(normalised(value)).toBe(value.toLowerCase());
});

describe('values that earlier releases may have stored', () => {
  it('is not looked for where every spelling is the one there is', () => {
    expect(formerAddresses('max@mail.example', ' Max@Mail.example', 'usual')).toEqual([]);
  });

  it('is every spelling of letters and domain, and the one that was sent', () => {
    const sent = 'mailto:Ren\u00e9e@STR\u00d6M.example';
    const former = formerAddresses(String(canonicalAddress(sent)), sent, 'usual');
    for (const spelling of ['ren\u00e9e@str\u00f6m.example', 'rene\u0301e@xn--strm-7qa.example', sent])
      expect(former).toContain(formerlyNormalisedAddress(spelling));
  });

  it('is for an erasure also what stood around the address', () => {
    expect(formerAddresses('max@mail.example', 'max@mail.example', 'every')).toEqual([
      'mailto:max@mail.example',
      'max@mail.example.',
      '<max@mail.example>',
    ]);
  });
});
