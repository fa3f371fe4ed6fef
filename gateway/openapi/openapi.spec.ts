import { expect, it } from 'vitest';
import { shareTitled } from './openapi.ts';

it('refuses two different schemas of one title', () => {
  const components = { Source: { title: 'Source', type: 'object' } };
  expect(() => shareTitled({ title: 'Source', type: 'string' }, components)).toThrow(
    'two schemas of the API are called Source',
  );
});
