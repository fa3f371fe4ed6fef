import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { threadMs } from '../../primitives/thread-time.fixture.ts';
import { isPlaceholder, isPlaceholderAddress, isPlaceholderDigest } from './placeholders.ts';

const PLACEHOLDERS = [
  '',
  ...'null undefined none n/a unknown anonymous guest test 0 -1 00000000-0000-0000-0000-000000000000'.split(
    ' ',
  ),
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

  it.each([
    ...'NaN True false nil "null" \'undefined\' (none) \\"null\\" <null> user-{{id}} *|UNIQID|* %%UserId%%'.split(
      ' ',
    ),
    ...'%user_id% {userId} [USER_ID] $user_id :id __USER_ID__ id Email distinct_id NOT_AUTHENTICATED'.split(
      ' ',
    ),
    ...'--- ... \u200b\u2060 \u200bnull\ufeff ? 0000-00-00 00 FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF #REF!'.split(
      ' ',
    ),
    ...['[object Object]', '(not set)', '{{ user.id }}', ['$', '{customer.email}'].join('')],
    ...['<%= current_user.id %>', '<your user id>', 'undefined undefined'],
  ])('joined strangers: %j', (value) => {
    expect(isPlaceholder(value)).toBe(true);
  });

  it.each('1 test1 nullable 00000000-0000-0000-0000-000000000001 100 naomi idris trueman'.split(' '))(
    'is not %j',
    (value) => {
      expect(isPlaceholder(value)).toBe(false);
      expect(isPlaceholderDigest(hash('sha256', value))).toBe(false);
    },
  );

  it.each([
    ...'u:1 auth0|5f7c {1b4e28ba-2fa1-11d2-883f-0016d3cca427}.x $100 👍 a<b> 0x1f 店 -7 #42'.split(' '),
    '%41%42 c',
  ])('is not %j, however odd', (value) => {
    expect(isPlaceholder(value)).toBe(false);
  });

  it('takes time linear in the value', () => {
    for (const part of ['{{', '${', '[[', '<%', '*|', '%%', '"', '(', '\\"', '0', '\u200b', ' ']) {
      const startedAt = threadMs();
      isPlaceholder(`${part.repeat(100_000)}x`);
      isPlaceholder(`x${part.repeat(100_000)}x`);
      expect(threadMs() - startedAt).toBeLessThan(500);
    }
  });
});

describe('an address that no person has', () => {
  it.each([
    ...'noemail@shop.example no-email@x.io no_email@x.io noreply@x.io none@none.com null@null.com'.split(' '),
    ...'not.provided@x.io a@b.invalid a@localhost test@test.com'.split(' '),
  ])('is %s', (address) => {
    expect(isPlaceholderAddress(address)).toBe(true);
  });

  it.each(['ada@example.com', 'test@example.com', 'emails@x.io', 'nonette@x.io', 'noemi@x.io', 'info@x.io'])(
    'is not %s',
    (address) => {
      expect(isPlaceholderAddress(address)).toBe(false);
    },
  );
});
