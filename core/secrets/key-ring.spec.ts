import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { parseKeyRing } from './key-ring.ts';

const key = () => randomBytes(32).toString('base64');

describe('parseKeyRing', () => {
  it('keeps the order, so that the first key seals', () => {
    const [newer, older] = [key(), key()];
    const parsed = parseKeyRing(`k2:${newer}, k1:${older}`);
    if (!parsed.ok) throw new Error(parsed.errors.join());
    expect([...parsed.ring].map(([kid, bytes]) => [kid, Buffer.from(bytes).toString('base64')])).toEqual([
      ['k2', newer],
      ['k1', older],
    ]);
  });

  it('takes base64 without its padding', () => {
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

  it('names every fault and shows no key', () => {
    const secret = key();
    const parsed = parseKeyRing(`k1:${secret},k1:${secret},x.y:${secret},${secret}`);
    if (parsed.ok) throw new Error('taken');
    expect(parsed.errors).toHaveLength(3);
    expect(parsed.errors.join()).not.toContain(secret.slice(0, 8));
  });
});
