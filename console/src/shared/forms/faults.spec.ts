import { expect, it } from 'vitest';
import { fieldPathOf, placeFaults } from './faults.ts';

it('have the path that the form gives the field', () => {
  expect(fieldPathOf('/settings/headers/0/name')).toBe('settings.headers.0.name');
  expect(fieldPathOf('/traits/a~1b~0c')).toBe('traits.a/b~c');
  expect(fieldPathOf('since')).toBe('since');
  expect(fieldPathOf('')).toBe('');
});

it('stand at the innermost field that shows them', () => {
  const fields = new Set(['name', 'settings.url', 'settings.headers']);
  expect(
    placeFaults(
      [
        { path: '/settings/url', message: 'is required' },
        { path: '/settings/headers/0/name', message: 'is taken' },
        { path: '/settings/headers/1', message: 'is empty' },
        { path: '/settings/secret', message: 'is unknown' },
        { path: '', message: 'is too large' },
      ],
      (path) => fields.has(path),
    ),
  ).toEqual({
    fields: {
      'settings.url': 'is required',
      'settings.headers': '0.name: is taken; 1: is empty',
    },
    others: [
      { path: '/settings/secret', message: 'is unknown' },
      { path: '', message: 'is too large' },
    ],
  });
});

it('find a field of another name', () => {
  const fieldOf = (path: string) => (path === 'expires_at' ? 'expiry' : path);
  const { fields } = placeFaults(
    [{ path: '/expires_at', message: 'is over' }],
    (path) => path === 'expiry',
    fieldOf,
  );
  expect(fields).toEqual({ expiry: 'is over' });
});
