import { expect, test } from 'vitest';
import { defineChosen } from './definitions.fixture.ts';
import definitions from './definitions.json' with { type: 'json' };

test('definitions.json matches the pack', () => {
  expect(definitions).toEqual(JSON.parse(JSON.stringify(defineChosen())));
});
