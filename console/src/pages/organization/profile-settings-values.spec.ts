import { expect, it } from 'vitest';
import { bodyOf, fieldOf, linesOf, valuesOf } from './profile-settings-values.ts';

const SETTINGS = {
  default_country: 'AT',
  blocked_identities: [
    { type: 'email', value: 'till@shop.example', pattern: null },
    { type: null, value: null, pattern: '^kiosk-' },
  ],
  identity_limits: [{ type: 'anonymous_id', max: 100, drop_oldest: true }],
  max_user_ids_per_identity: 100,
};

it('are read back unchanged', () => {
  expect(bodyOf(valuesOf(SETTINGS))).toEqual({
    default_country: 'AT',
    blocked_identities: [{ type: 'email', value: 'till@shop.example' }, { pattern: '^kiosk-' }],
    identity_limits: [{ type: 'anonymous_id', max: 100, drop_oldest: true }],
    max_user_ids_per_identity: 100,
  });
});

it('leave empty fields to the API', () => {
  const values = { ...valuesOf(SETTINGS), default_country: '', max_user_ids_per_identity: '' as const };
  const row = { key: 'n', type: 'phone', max: '' as const, drop_oldest: false };
  expect(bodyOf({ ...values, blocked_identities: [], identity_limits: [row] })).toEqual({
    default_country: null,
    blocked_identities: [],
    identity_limits: [{ type: 'phone', max: 0, drop_oldest: false }],
    max_user_ids_per_identity: null,
  });
});

it.each([
  ['blocked_identities.3.pattern', 'blocked_identities.3.text'],
  ['blocked_identities.3', 'blocked_identities.3.text'],
  ['blocked_identities.12.type', 'blocked_identities.12.type'],
  ['identity_limits.0.max', 'identity_limits.0.max'],
])('shows a fault of %s at %s', (path, field) => {
  expect(fieldOf(path)).toBe(field);
});

it('are compared row by row', () => {
  const { blocked_identities, identity_limits } = valuesOf(SETTINGS);
  expect(linesOf(blocked_identities)).toBe('email: value till@shop.example\nany type: pattern ^kiosk-');
  expect(linesOf(identity_limits)).toBe('anonymous_id: at most 100, the oldest goes');
  expect(linesOf('AT')).toBe('AT');
});
