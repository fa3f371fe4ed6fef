import { expect, it } from 'vitest';
import { assignFaults } from './faults.ts';

it('stand at the innermost field that shows them', () => {
  const fields = new Set(['name', 'since', 'settings.url', 'settings.headers', 'traits.a/b~c']);
  expect(
    assignFaults(
      [
        { path: '/settings/url', message: 'is required' },
        { path: '/settings/headers/0/name', message: 'is taken' },
        { path: '/settings/headers/1', message: 'is empty' },
        { path: '/traits/a~1b~0c', message: 'is empty' },
        { path: 'since', message: 'is no time' },
        { path: '/settings/secret', message: 'is unknown' },
        { path: '', message: 'is too large' },
      ],
      (path) => fields.has(path),
    ),
  ).toEqual({
    fields: {
      'settings.url': 'is required',
      'settings.headers': '0.name: is taken; 1: is empty',
      'traits.a/b~c': 'is empty',
      since: 'is no time',
    },
    others: [
      { path: '/settings/secret', message: 'is unknown' },
      { path: '', message: 'is too large' },
    ],
  });
});

it('find a field of another name', () => {
  const fieldOf = (path: string) => (path === 'expires_at' ? 'expiry' : path);
  const { fields } = assignFaults(
    [{ path: '/expires_at', message: 'is over' }],
    (path) => path === 'expiry',
    fieldOf,
  );
  expect(fields).toEqual({ expiry: 'is over' });
});
