import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '../event/event.ts';
import { isSealed, parseKeyRing, seal, unseal } from './secrets.ts';

const key = () => randomBytes(32).toString('base64');

describe('parseKeyRing', () => {
  it('keeps the order of the keys: the first one seals', () => {
    const [newer, older] = [key(), key()];
    const parsed = parseKeyRing(`k2:${newer}, k1:${older}`);
    if (!parsed.ok) throw new Error(parsed.errors.join());
    expect([...parsed.ring].map(([kid, bytes]) => [kid, Buffer.from(bytes).toString('base64')])).toEqual([
      ['k2', newer],
      ['k1', older],
    ]);
  });

  it('accepts base64 without padding', () => {
    expect(parseKeyRing(`k1:${key().replace('=', '')}`).ok).toBe(true);
  });

  it.each([
    ['nothing', ''],
    ['a key without an id', key()],
    ['an empty id', `:${key()}`],
    ['an id with a dot, which separates the parts of sealed text', `a.b:${key()}`],
    ['16 bytes', `k1:${randomBytes(16).toString('base64')}`],
    ['33 bytes', `k1:${randomBytes(33).toString('base64')}`],
    ['text that is not base64', `k1:${'*'.repeat(44)}`],
    ['an id twice', `k1:${key()},k1:${key()}`],
    ['a comma too many', `k1:${key()},`],
  ])('refuses %s', (_, text) => {
    expect(parseKeyRing(text).ok).toBe(false);
  });

  it('reports every fault without the text of a key', () => {
    const secret = key();
    const parsed = parseKeyRing(`k1:${secret},k1:${secret},x.y:${secret},${secret}`);
    if (parsed.ok) throw new Error('taken');
    expect(parsed.errors).toHaveLength(3);
    expect(parsed.errors.join()).not.toContain(secret.slice(0, 8));
  });
});

const ring = new Map([
  ['k2', randomBytes(32)],
  ['k1', randomBytes(32)],
]);
const location = {
  kind: 'destination',
  id: '0b1f7a55-3c1e-4b8e-9a35-1e1d4a2c9f10',
  path: '/secret',
} as const;

describe('seal and unseal', () => {
  it('restore any JSON value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = JSON.parse(JSON.stringify(value)) as Json;
        const sealed = JSON.parse(JSON.stringify(seal(ring, location, json))) as unknown;
        if (!isSealed(sealed)) throw new Error('not recognised');
        expect(unseal(ring, location, sealed)).toEqual({ ok: true, value: json });
      }),
    );
  });

  it('reveal neither the secret nor the equality of two secrets', () => {
    const [one, other] = [seal(ring, location, 'whsec_1234'), seal(ring, location, 'whsec_1234')];
    expect(one.$sealed).not.toBe(other.$sealed);
    expect(Buffer.from(one.$sealed.split('.')[2] ?? '', 'base64url').toString('latin1')).not.toContain(
      'whsec',
    );
  });

  it('seal with the first key and open with each', () => {
    const older = new Map([...ring].slice(1));
    expect(seal(ring, location, 'x').$sealed).toMatch(/^k2\./);
    expect(unseal(ring, location, seal(older, location, 'x'))).toEqual({ ok: true, value: 'x' });
  });

  it('refuse another key of the same id', () => {
    const sealed = seal(ring, location, 'x');
    expect(unseal(new Map([['k2', randomBytes(32)]]), location, sealed)).toEqual({
      ok: false,
      fault: 'refused',
    });
    expect(unseal(new Map(), location, sealed)).toEqual({ ok: false, fault: 'unknown_key' });
  });

  it('refuse a secret that was moved to another destination or setting', () => {
    const sealed = seal(ring, location, 'x');
    expect(unseal(ring, { ...location, id: 'other' }, sealed).ok).toBe(false);
    expect(unseal(ring, { ...location, kind: 'source' }, sealed).ok).toBe(false);
    expect(unseal(ring, { ...location, path: '/headers' }, sealed).ok).toBe(false);
  });

  it('refuse sealed text with any bit changed', () => {
    const { $sealed } = seal(ring, location, 'a secret');
    const [kid, iv, bytes] = $sealed.split('.');
    const flip = (text: string, bit: number) => {
      const changed = Buffer.from(text, 'base64url');
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      return changed.toString('base64url');
    };
    for (let bit = 0; bit < 96; bit++)
      expect(unseal(ring, location, { $sealed: `${kid}.${flip(iv ?? '', bit)}.${bytes}` }).ok).toBe(false);
    for (let bit = 0; bit < 8 * 26; bit++)
      expect(unseal(ring, location, { $sealed: `${kid}.${iv}.${flip(bytes ?? '', bit)}` }).ok).toBe(false);
  });

  it('return a result for any text without throwing', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^k2\.[\w-]{0,20}\.[\w-]{0,40}$/)), (text) => {
        expect(unseal(ring, location, { $sealed: text }).ok).toBe(false);
      }),
    );
  });

  it('throw without a key to seal with', () => {
    expect(() => seal(new Map(), location, 'x')).toThrow();
  });
});

describe('isSealed', () => {
  it('distinguishes the sealed form from a similar setting', () => {
    expect(isSealed(seal(ring, location, 'x'))).toBe(true);
    for (const other of [null, 'x', {}, { $sealed: 1 }, { $sealed: 'a', more: 1 }, ['$sealed']])
      expect(isSealed(other)).toBe(false);
  });
});
