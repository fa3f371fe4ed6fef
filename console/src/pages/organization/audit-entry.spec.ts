import { expect, it } from 'vitest';
import { actorOf, rangeOf, titleOf } from './audit-entry.ts';

const nobody = { email: null, key_prefix: null };

it.each([
  [{ ...nobody, type: 'account', id: 'a', email: 'ada@example.com' }, 'ada@example.com'],
  [{ ...nobody, type: 'account', id: 'a' }, 'a'],
  [{ ...nobody, type: 'api_key', id: 'k', key_prefix: 'trb_ak_1' }, 'api key trb_ak_1…'],
  [{ ...nobody, type: 'stage', id: 'replay' }, 'stage replay'],
] as const)('names the author %j', (actor, expected) => {
  expect(actorOf(actor)).toBe(expected);
});

it('states the action and the entity', () => {
  const entity = { type: 'write_key', id: 'k', name: 'Shop' };
  const actor = { ...nobody, type: 'account', id: 'a' } as const;
  const rest = { id: 'e', at: '', before: null, after: null, address: null, request_id: null, actor };
  expect(titleOf({ ...rest, action: 'revoked', entity })).toBe('write key "Shop" revoked');
  expect(titleOf({ ...rest, action: 'removed', entity: { ...entity, name: null } })).toBe(
    'write key "k" removed',
  );
  const member = { type: 'workspace_member', id: 'm', name: null };
  expect(titleOf({ ...rest, action: 'added', entity: member, after: { email: 'ada@example.com' } })).toBe(
    'workspace member "ada@example.com" added',
  );
});

it('goes from the start of the first day to the end of the last, as the viewer counts days', () => {
  expect(rangeOf('2026-03-01', '2026-03-01')).toEqual({
    since: new Date(2026, 2, 1).toISOString(),
    until: new Date(2026, 2, 2).toISOString(),
  });
  expect(rangeOf('2026-03-01T00:00:00Z', undefined)).toEqual({ since: '2026-03-01T00:00:00Z' });
  expect(rangeOf(undefined, '2026-99-99')).toEqual({ until: '2026-99-99' });
});
