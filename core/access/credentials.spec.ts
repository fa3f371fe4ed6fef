import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hashKey, isUsable, type KeyKind, makeKey, normalizeEmail, parseKey } from './credentials.ts';

describe('normalizeEmail', () => {
  it('lowers ASCII letters', () => {
    expect(normalizeEmail('Ada.Lovelace@Example.COM')).toBe('ada.lovelace@example.com');
  });

  it('keeps addresses apart that only Unicode considers equal', () => {
    expect(normalizeEmail('\u212Aate@example.com')).toBe('\u212Aate@example.com');
    expect(normalizeEmail('\u0130@example.com')).toBe('\u0130@example.com');
  });

  it.each(['', 'ada', 'ada@', '@example.com', 'a b@example.com', 'a@b@c', 'a\u0000@b.c', 'a@b.c\n'])(
    'does not accept %j as an address',
    (text) => {
      expect(normalizeEmail(text)).toBeUndefined();
    },
  );

  it('accepts no address longer than mail does', () => {
    expect(normalizeEmail(`${'a'.repeat(242)}@example.com`)).toHaveLength(254);
    expect(normalizeEmail(`${'a'.repeat(243)}@example.com`)).toBeUndefined();
  });
});

const random = fc.uint8Array({ minLength: 32, maxLength: 32 });
const kind = fc.constantFrom<KeyKind>('write_key', 'api_key', 'client_key');
const environment = fc.constantFrom('production' as const, 'development' as const);

describe('keys', () => {
  it('are recognised by their form', () => {
    const bytes = new Uint8Array(32).fill(7);
    expect(makeKey('write_key', bytes).raw).toMatch(/^trb_wk_prod_[0-9A-Za-z]{49}$/);
    expect(makeKey('write_key', bytes, 'development').raw).toMatch(/^trb_wk_dev_[0-9A-Za-z]{49}$/);
    expect(makeKey('api_key', bytes).raw).toMatch(/^trb_api_[0-9A-Za-z]{49}$/);
    expect(makeKey('client_key', bytes).raw).toMatch(/^trb_client_[0-9A-Za-z]{49}$/);
  });

  it('parse to their kind and hash, and show a prefix of themselves', () => {
    fc.assert(
      fc.property(kind, random, environment, (made, bytes, where) => {
        const key = makeKey(made, bytes, where);
        expect(parseKey(key.raw)).toEqual({ kind: made, hash: key.hash });
        expect(key.hash).toBe(hashKey(key.raw));
        expect(key.raw.startsWith(key.prefix)).toBe(true);
        expect(key.prefix.length).toBeLessThanOrEqual('trb_wk_prod_'.length + 6);
      }),
    );
  });

  it('keep all 256 bits apart', () => {
    fc.assert(
      fc.property(random, fc.nat({ max: 255 }), (bytes, bit) => {
        const other = Uint8Array.from(bytes);
        other[bit >> 3] = (other[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        expect(makeKey('api_key', other).raw).not.toBe(makeKey('api_key', bytes).raw);
      }),
    );
  });

  it('are refused with one character changed, missing or added', () => {
    fc.assert(
      fc.property(kind, random, fc.nat(), fc.constantFrom(...'0aZ_-é'), (made, bytes, at, character) => {
        const { raw } = makeKey(made, bytes);
        const index = at % raw.length;
        const changed = raw.slice(0, index) + character + raw.slice(index + 1);
        if (changed !== raw) expect(parseKey(changed)).toBeUndefined();
        expect(parseKey(raw.slice(0, index) + raw.slice(index + 1))).toBeUndefined();
        expect(parseKey(raw + character)).toBeUndefined();
      }),
    );
  });

  it('are not found in any other text', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(parseKey(`trb_api_${text}`)).toBeUndefined();
      }),
    );
    expect(parseKey('')).toBeUndefined();
    expect(parseKey('x'.repeat(1_000_000))).toBeUndefined();
  });
});

const END = '2026-01-01T00:00:00.000Z';
const end = Date.parse(END);

it('is good until it is revoked or expires, and never after', () => {
  expect(isUsable({ status: 'active' }, end)).toBe(true);
  expect(isUsable({ status: 'active', expires_at: null }, end)).toBe(true);
  expect(isUsable({ status: 'active', expires_at: END }, end - 1)).toBe(true);
  expect(isUsable({ status: 'active', expires_at: END }, end)).toBe(false);
  expect(isUsable({ status: 'revoked', expires_at: END }, end - 1)).toBe(false);
  expect(isUsable({ status: 'revoked' }, end)).toBe(false);
});

it('does not last for ever because of an invalid time', () => {
  expect(isUsable({ status: 'active', expires_at: 'soon' }, end)).toBe(false);
});
