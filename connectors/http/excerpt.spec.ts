import { expect, test } from 'vitest';
import { EXCERPT_BYTES, excerptOf, secretTexts } from './excerpt.ts';

const SECRET = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';
const secrets = secretTexts({
  secret: SECRET,
  headers: [
    ['authorization', 'Bearer tok_0123456789'],
    ['x-quoted', 'a"b"cdef'],
    ['x-empty', ''],
  ],
});
const excerpt = (text: string) => excerptOf(Buffer.from(text), secrets);

test('an answer is shown without control characters and not past a kilobyte', () => {
  expect(excerpt('  all\u0000 \u001b[31mgood\n')).toBe('all [31mgood');
  expect(excerpt('é'.repeat(EXCERPT_BYTES))).toBe('é'.repeat(EXCERPT_BYTES / 2));
  expect(excerpt(`x${'é'.repeat(EXCERPT_BYTES)}`)).toBe(`x${'é'.repeat(EXCERPT_BYTES / 2 - 1)}`);
});

test('what a destination echoes of the secret settings is masked', () => {
  expect(excerpt(`you sent ${SECRET}`)).toBe('you sent ***');
  expect(excerpt('{"authorization":"Bearer tok_0123456789"}')).toBe('{"authorization":"***"}');
  expect(excerpt('{"token":"tok_0123456789"}')).toBe('{"token":"***"}');
  expect(excerpt(JSON.stringify({ 'x-quoted': 'a"b"cdef' }))).toBe('{"x-quoted":"***"}');
});

test('a secret that the end of the excerpt cuts in two is masked too', () => {
  const shown = excerpt('.'.repeat(EXCERPT_BYTES - 20) + SECRET);
  expect(shown).toBe(`${'.'.repeat(EXCERPT_BYTES - 20)}***`);
});
