import { describe, expect, it } from 'vitest';
import { normalizeEmail } from './email.ts';

describe('normalizeEmail', () => {
  it('lowers ASCII letters', () => {
    expect(normalizeEmail('Ada.Lovelace@Example.COM')).toBe('ada.lovelace@example.com');
  });

  it('keeps addresses apart that only Unicode takes for the same', () => {
    expect(normalizeEmail('\u212Aate@example.com')).toBe('\u212Aate@example.com');
    expect(normalizeEmail('\u0130@example.com')).toBe('\u0130@example.com');
  });

  it.each(['', 'ada', 'ada@', '@example.com', 'a b@example.com', 'a@b@c', 'a\u0000@b.c', 'a@b.c\n'])(
    'takes %j for no address',
    (text) => {
      expect(normalizeEmail(text)).toBeUndefined();
    },
  );

  it('takes no address longer than mail does', () => {
    expect(normalizeEmail(`${'a'.repeat(242)}@example.com`)).toHaveLength(254);
    expect(normalizeEmail(`${'a'.repeat(243)}@example.com`)).toBeUndefined();
  });
});
