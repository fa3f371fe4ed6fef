import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { threadMs } from '../../primitives/thread-time.fixture.ts';
import { identity } from '../world.fixture.ts';
import { type BlockedIdentity, readBlockList } from './profile-settings.ts';

const entry = (fields: Partial<BlockedIdentity>): BlockedIdentity => ({
  type: null,
  value: null,
  pattern: null,
  ...fields,
});
function blocks(fields: Partial<BlockedIdentity>, text: string): boolean {
  const read = readBlockList([entry(fields)], { defaultCountry: 'DE' });
  if ('faults' in read) throw new Error(JSON.stringify(read.faults));
  return read.isBlocked(identity(text));
}
const faultsOf = (...list: readonly Partial<BlockedIdentity>[]) => {
  const read = readBlockList(list.map(entry));
  return 'faults' in read ? read.faults.map(({ path }) => path) : [];
};

describe('a blocked identity', () => {
  it.each<[Partial<BlockedIdentity>, string, boolean]>([
    [{ value: 'Walk-In' }, 'user_id:walk-in', true],
    [{ value: ' walk-in ' }, 'crm:WALK-IN', true],
    [{ value: 'walk-in' }, 'crm:walk-in-7', false],
    [{ type: 'email', value: 'Desk@Hotel.example' }, 'email:desk@hotel.example', true],
    [{ type: 'email', value: 'desk@hotel.example' }, 'user_id:desk@hotel.example', false],
    [
      { type: 'email', value: 'desk@hotel.example' },
      `email_sha256_lowercase:${hash('sha256', 'desk@hotel.example')}`,
      true,
    ],
    [{ value: 'desk@hotel.example' }, `email_md5:${hash('md5', 'desk@hotel.example')}`, true],
    [{ type: 'crm', value: 'Till 4' }, `crm_sha1:${hash('sha1', 'Till 4')}`, true],
    [{ type: 'crm', value: 'Till 4' }, `email_sha1:${hash('sha1', 'Till 4')}`, false],
    [
      { type: 'email_sha256_lowercase', value: hash('sha256', 'desk@hotel.example') },
      'email:desk@hotel.example',
      true,
    ],
    [{ type: 'email', value: 'desk@müller.example' }, 'email:desk@xn--mller-kva.example', true],
    [{ type: 'phone', value: '089 636 48018' }, 'phone:+498963648018', true],
    [{ value: '(089) 63648018' }, 'cellphone:+498963648018', true],
    [{ pattern: '^kiosk-[0-9]+$' }, 'anonymous_id:kiosk-12', true],
    [{ pattern: '^kiosk-[0-9]+$' }, 'anonymous_id:my-kiosk-12', false],
    [{ type: 'email', pattern: '@(temp|trash)\\.example$' }, 'email:a@trash.example', true],
    [{ type: 'email', pattern: '@(temp|trash)\\.example$' }, 'crm:a@trash.example', false],
  ])('%j of %s: %s', (fields, text, expected) => {
    expect(blocks(fields, text)).toBe(expected);
  });

  it.each<[string, readonly Partial<BlockedIdentity>[], readonly string[]]>([
    ['neither a value nor a pattern', [{ type: 'email' }], ['/0']],
    ['both', [{ value: 'x' }, { value: 'x', pattern: 'x' }], ['/1']],
    ['no regular expression', [{ pattern: '(' }], ['/0/pattern']],
    [
      'what runs in no linear time',
      [{ pattern: '(a)\\1' }, { pattern: '(?=x)y' }],
      ['/0/pattern', '/1/pattern'],
    ],
    ['what matches every value', [{ pattern: '.*' }, { pattern: 'a?' }], ['/0/pattern', '/1/pattern']],
    [
      'a word that is no type',
      [
        { type: 'linkedUcid', value: 'x' },
        { type: 'a b', value: 'x' },
      ],
      ['/0/type', '/1/type'],
    ],
    ['too large a pattern', [{ pattern: '(abc){300}x' }], ['/0/pattern']],
  ])('is refused with its place where it has %s', (_, list, paths) => {
    expect(faultsOf(...list)).toEqual(paths);
  });

  it('costs little however hostile the pattern and the value are', () => {
    const read = readBlockList([entry({ pattern: '(x+x+)+y' }), entry({ pattern: '(a|b)*a(a|b){20}c' })]);
    if ('faults' in read) throw new Error('refused');
    const startedAt = threadMs();
    for (const value of ['x'.repeat(512), 'ab'.repeat(256)]) read.isBlocked({ type: 'crm', value });
    expect(threadMs() - startedAt).toBeLessThan(250);
  });
});
