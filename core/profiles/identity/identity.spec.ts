import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { identityKey, MAX_IDENTITY_CHARACTERS, namespaceOf, normaliseIdentity } from './identity.ts';

const normalised = (type: string, value: unknown) => {
  const result = normaliseIdentity(type, value);
  return result.kind === 'identity' ? result.identity.value : result.fault;
};
const key = (type: string, value: string) => {
  const result = normaliseIdentity(type, value);
  return result.kind === 'identity' ? identityKey(result.identity) : result.fault;
};

describe('normaliseIdentity', () => {
  it.each([
    ['email', '  Ada@Example.COM ', 'ada@example.com'],
    ['email', 'ÄDA@example.com', 'äda@example.com'],
    ['email', '\u212aate@example.com', '\u212aate@example.com'],
    ['cellphone', ' +49 170 ABC\n', '+49 170 ABC'],
    ['AdId', 'AbC', 'AbC'],
    ['email_sha256_lowercase', 'ABCDEF', 'abcdef'],
    ['cellphone_md5', 'C0FFEE', 'c0ffee'],
    ['email_sha256', 'Base64==', 'Base64=='],
    ['loyalty', 'C0FFEE', 'C0FFEE'],
  ])('writes %s %j as %j', (type, value, expected) => {
    expect(normalised(type, value)).toBe(expected);
  });

  it.each([
    ['', 'a', 'type'],
    ['e mail', 'a', 'type'],
    ['.email', 'a', 'type'],
    ['é', 'a', 'type'],
    ['x'.repeat(101), 'a', 'type'],
    ['ucid', 'a', 'reserved_type'],
    ['linkedUcid', 'a', 'reserved_type'],
    ['linkedUcid_md5', 'a', 'reserved_type'],
    ['_ts', 'a', 'reserved_type'],
    ['__proto__', 'a', 'reserved_type'],
    ['__proto___sha1', 'a', 'reserved_type'],
    ['constructor', 'a', 'reserved_type'],
    ['prototype', 'a', 'reserved_type'],
    ['email', 5, 'not_text'],
    ['email', null, 'not_text'],
    ['email', ['a'], 'not_text'],
    ['email', 'a\ud800', 'not_text'],
    ['email', ' ', 'placeholder'],
    ['user_id', 'Guest', 'placeholder'],
    ['email_md5', hash('md5', 'null'), 'placeholder'],
    ['email_sha256_lowercase', hash('sha256', '').toUpperCase(), 'placeholder'],
    ['email', 'x'.repeat(MAX_IDENTITY_CHARACTERS + 1), 'too_long'],
  ])('refuses %s %j: %s', (type, value, fault) => {
    expect(normalised(type, value)).toBe(fault);
  });

  it('counts characters, not halves of them', () => {
    const longest = '🚀'.repeat(MAX_IDENTITY_CHARACTERS);
    expect(normalised('x.y:z-1', ` ${longest} `)).toBe(longest);
    expect(normalised('x', `${longest}🚀`)).toBe('too_long');
  });

  it('accepts its own output unchanged', () => {
    const type = fc.constantFrom('email', 'email_sha256_lowercase', 'phone_md5_uppercase', 'AdId');
    fc.assert(
      fc.property(type, fc.string({ unit: 'grapheme', maxLength: 30 }), (name, value) => {
        const first = normaliseIdentity(name, value);
        if (first.kind === 'identity') expect(normaliseIdentity(name, first.identity.value)).toEqual(first);
      }),
    );
  });
});

describe('identityKey', () => {
  it('is the same for an address and its hash', () => {
    const digest = hash('sha256', 'ada@example.com');
    expect(key('email', 'Ada@Example.com ')).toBe(key('email_sha256_lowercase', digest.toUpperCase()));
  });

  it('keeps everything else apart', () => {
    const address = 'ada@example.com';
    const keys = [
      key('email', address),
      key('Email', address),
      key('email', 'eve@example.com'),
      key('email_sha256', hash('sha256', address)),
      key('email_sha256_uppercase', hash('sha256', address.toUpperCase())),
      key('email_md5_lowercase', hash('md5', address)),
      key('a', 'b=c'),
      key('a', 'B=c'),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });
});

it.each([
  ['email_sha256_lowercase', 'email'],
  ['cellphone_md5', 'cellphone'],
  ['my_id_sha1_uppercase', 'my_id'],
  ['email', 'email'],
  ['email_sha512', 'email_sha512'],
  ['_md5', '_md5'],
  ['md5', 'md5'],
])('namespaceOf %s is %s', (type, namespace) => {
  expect(namespaceOf(type)).toBe(namespace);
});
