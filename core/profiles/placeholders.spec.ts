import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { isPlaceholder, isPlaceholderDigest } from './placeholders.ts';

const PLACEHOLDERS = [
  '',
  'null',
  'undefined',
  'none',
  'n/a',
  'unknown',
  'anonymous',
  'guest',
  'test',
  '0',
  '-1',
  '00000000-0000-0000-0000-000000000000',
];

describe('a placeholder', () => {
  it.each(PLACEHOLDERS)('is %j, in any case and with blanks around it', (value) => {
    expect(isPlaceholder(value)).toBe(true);
    expect(isPlaceholder(` ${value.toUpperCase()}\t`)).toBe(true);
  });

  it.each(PLACEHOLDERS)('is known by the digest of %j', (value) => {
    for (const algorithm of ['md5', 'sha1', 'sha256']) {
      expect(isPlaceholderDigest(hash(algorithm, value))).toBe(true);
      expect(isPlaceholderDigest(hash(algorithm, value.toUpperCase()).toUpperCase())).toBe(true);
    }
  });

  it.each(['nobody', '00', '1', 'test1', 'nullable', '00000000-0000-0000-0000-000000000001'])(
    'is not %j',
    (value) => {
      expect(isPlaceholder(value)).toBe(false);
      expect(isPlaceholderDigest(hash('sha256', value))).toBe(false);
    },
  );
});
